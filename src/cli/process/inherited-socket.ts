import { WaybillError } from '../../core/lib/errors.ts';

/** The first descriptor that systemd passes on, behind those of standard input, output and error. */
const firstDescriptor = 3;

/**
 * The file descriptor of the socket that systemd has bound for this process, as sd_listen_fds(3) says; null
 * if there is none. Variables that are for another process, as for a parent that passed its environment on,
 * say nothing. Throws `config_invalid` if there are several: which of them would be a guess.
 */
export function inheritedSocket(env: NodeJS.ProcessEnv, pid: number): number | null {
  const count = Number(env['LISTEN_FDS']);
  if (Number(env['LISTEN_PID']) !== pid || !(count > 0)) return null;
  if (count === 1) return firstDescriptor;
  throw new WaybillError('config_invalid', `systemd passes ${count} sockets on; one is what is listened on`, {
    hint: 'leave one ListenStream= in the .socket unit, and one .socket unit in Sockets= of the service',
  });
}
