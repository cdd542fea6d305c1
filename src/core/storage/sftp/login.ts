import { readFile } from 'node:fs/promises';
import type { Duplex } from 'node:stream';
import ssh2, { type AnyAuthMethod, type BaseAgent, type ParsedKey } from 'ssh2';
import type { Clock } from '../../lib/clock.ts';
import { WaybillError } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import type { Secrets } from '../../lib/secrets.ts';
import { isAbsent } from '../../lib/system-errors.ts';
import { shellQuoted } from '../../lib/text.ts';
import { describeSystemError } from '../storage-errors.ts';
import {
  fingerprint,
  hostKeyType,
  judgeHostKey,
  knownKeyTypes,
  malformedLines,
  nameOf,
  readKnownHosts,
  rememberHostKey,
} from './known-hosts.ts';
import { insecureKeyMode, type SftpLocation } from './sftp-location.ts';

/*
 * Authentication for both ends of a connection: the user logs in with an agent or a key file, and the server
 * proves who it is with its host key.
 */

const agentTimeoutMs = 10_000;

interface AuthMethods {
  /** The login methods, in the order in which to try them. */
  methods: AnyAuthMethod[];
  /** Closes the connections to the agent. Call this after the login, whether it has succeeded or failed. */
  release: () => void;
}

/**
 * Returns the login methods, with the agent first, followed by the key file. The agent's socket may still
 * exist even if the agent does not. If it does not respond but there is a key file, the agent is skipped.
 * Throws `ssh_key_invalid` if the key cannot be used, or if there is neither an agent nor a key.
 */
export async function authMethods(
  location: SftpLocation,
  { secrets, label, log, clock }: { secrets: Secrets; label: string; log: Log; clock: Clock },
): Promise<AuthMethods> {
  const { user: username } = location;
  let release = (): void => undefined;
  const agent = location.sshAgentSocket ?? secrets.get('SSH_AUTH_SOCK');
  const methods: AnyAuthMethod[] = [];
  // Setting the variable to an empty value turns the agent off.
  if (agent !== undefined && agent !== '')
    try {
      const opened = openAgent(agent);
      await requireAnswer(opened, clock);
      methods.push({ type: 'agent', username, agent: opened.agent });
      ({ release } = opened);
    } catch (cause) {
      if (location.sshKeyFile === null)
        throw new WaybillError('ssh_key_invalid', `${label}: the SSH agent at "${agent}" does not answer`, {
          cause,
          hint: 'start the agent again and name its socket in SSH_AUTH_SOCK or ssh_agent_socket, or set ssh_key_file',
        });
      log.warn(
        { storage: label, agent, err: cause },
        'the SSH agent did not answer; trying only the key file',
      );
    }
  if (location.sshKeyFile !== null)
    methods.push({
      type: 'publickey',
      username,
      ...(await readKey(location.sshKeyFile, location, secrets, label)),
    });
  if (methods.length > 0) return { methods, release };
  throw new WaybillError('ssh_key_invalid', `${label}: there is no SSH key to log in with`, {
    hint: 'set ssh_key_file, or load a key into an SSH agent with ssh-add; waybill finds the agent by SSH_AUTH_SOCK',
  });
}

interface OpenedAgent {
  agent: BaseAgent;
  release: () => void;
}

/**
 * Keeps track of the connections to the agent. If the agent does not respond, ssh2 never closes its
 * connection.
 */
function openAgent(socket: string): OpenedAgent {
  const agent = ssh2.createAgent(socket);
  const streams = new Set<Duplex>();
  let isReleased = false;
  const getStream = agent.getStream?.bind(agent);
  if (getStream !== undefined)
    agent.getStream = (done) =>
      getStream((error, stream) => {
        if (isReleased) stream?.destroy();
        else if (stream !== undefined) streams.add(stream);
        done(error, stream);
      });
  return {
    agent,
    release: () => {
      isReleased = true;
      for (const stream of streams) stream.destroy();
    },
  };
}

/** Checks that the agent responds. If it fails during login, ssh2 gives up on the whole connection. */
async function requireAnswer({ agent, release }: OpenedAgent, clock: Clock): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const tooLate = (): void => {
      release();
      reject(new Error('the agent does not answer'));
    };
    const timer = clock.timeout(agentTimeoutMs, tooLate);
    agent.getIdentities((error) => {
      timer.cancel();
      if (error instanceof Error) reject(error);
      else resolve();
    });
  });
}

const namePrivateKey = 'name a private key in OpenSSH or PEM form; its file begins with "-----BEGIN"';

async function readKey(
  file: string,
  { sshKeyPassphraseEnv }: SftpLocation,
  secrets: Secrets,
  label: string,
): Promise<{ key: Buffer; passphrase?: string }> {
  const unusable = (why: string, hint: string, cause?: unknown): WaybillError =>
    new WaybillError('ssh_key_invalid', `${label}: the key file "${file}" ${why}`, { cause, hint });
  const key = await readFile(file).catch((cause: unknown) => {
    if (isAbsent(cause))
      throw unusable('does not exist', 'correct ssh_key_file, the path of the private key', cause);
    const why = `cannot be read: ${describeSystemError(cause)}`;
    throw unusable(why, 'give the user that runs waybill read access', cause);
  });
  if (/^(?:ssh|ecdsa|sk)-\S+ /.test(key.toString('latin1', 0, 64)))
    throw unusable('holds a public key', namePrivateKey);
  const open = await insecureKeyMode(file);
  if (open !== null)
    throw unusable(
      `can be read by other users (mode ${open}), so it is refused`,
      `chmod 600 ${shellQuoted(file)}`,
    );
  const passphrase = sshKeyPassphraseEnv === null ? undefined : secrets.get(sshKeyPassphraseEnv);
  const parsed = ssh2.utils.parseKey(key, passphrase);
  if (!(parsed instanceof Error)) {
    const [first]: (ParsedKey | undefined)[] = Array.isArray(parsed) ? parsed : [parsed];
    if (first?.isPrivateKey() === true) return passphrase === undefined ? { key } : { key, passphrase };
    throw unusable('holds a public key', namePrivateKey);
  }
  if (/no passphrase given/i.test(parsed.message))
    throw unusable(
      'is encrypted, and no passphrase is configured',
      'name the variable that holds the passphrase in ssh_key_passphrase_env, or use an agent',
      parsed,
    );
  if (passphrase !== undefined && /bad passphrase|integrity check|bad decrypt/i.test(parsed.message))
    throw unusable(
      `cannot be decrypted with the value of ${sshKeyPassphraseEnv ?? ''}`,
      'correct that secret',
      parsed,
    );
  throw unusable('holds no private key that waybill can read', namePrivateKey, parsed);
}

export interface HostKeyCheck {
  /**
   * The algorithms to offer, starting with those of known keys. The server picks the first one it supports.
   */
  algorithms: string[];
  /** Throws `storage_denied` if the policy of this location does not allow the server's key. */
  accept(key: Buffer): Promise<void>;
}

const allAlgorithms = [
  'ssh-ed25519',
  'ecdsa-sha2-nistp256',
  'ecdsa-sha2-nistp384',
  'ecdsa-sha2-nistp521',
  'rsa-sha2-512',
  'rsa-sha2-256',
];

/**
 * Prepares to check the server's host key. If `remember` is false, which is the case in a dry run, a new key
 * is accepted for this connection but not written to the known hosts file. Throws `storage_permanent` if that
 * file cannot be read.
 */
export async function hostKeyCheck(
  location: SftpLocation,
  options: { label: string; log: Log; remember: boolean },
): Promise<HostKeyCheck> {
  const { host, port, hostKeyPolicy, knownHostsFile: file } = location;
  const { label, log } = options;
  if (hostKeyPolicy === 'off') return { algorithms: allAlgorithms, accept: async () => undefined };
  const text = await readKnownHosts(file);
  const malformed = malformedLines(text);
  if (malformed.length > 0)
    log.warn(
      { storage: label, file, lines: malformed },
      `known_hosts_file has lines that cannot be parsed and are ignored: ${malformed.map((line) => `${file}:${line}`).join(', ')}`,
    );
  const known = new Set(knownKeyTypes(text, host, port).flatMap(algorithmsOf));
  const algorithms = [...allAlgorithms].sort((a, b) => Number(known.has(b)) - Number(known.has(a)));
  return { algorithms, accept };

  async function accept(key: Buffer): Promise<void> {
    const before = judgeHostKey(text, host, port, key);
    const isNew = before.kind === 'unknown' && hostKeyPolicy === 'accept-new' && options.remember;
    // In the meantime, another connection may have added a key for this host.
    const verdict = isNew ? await rememberHostKey(file, host, port, key) : before;
    const shown = `${hostKeyType(key)} ${fingerprint(key)}`;
    switch (verdict.kind) {
      case 'known':
        return;
      case 'revoked':
        throw refused(
          `the server shows the key ${shown}, which line ${verdict.line} of ${file} revokes`,
          'do not connect to this server before its owner has given it a new key',
        );
      case 'changed': {
        const before = verdict.expected
          .map(({ type, fingerprint: print, line }) => `${type} ${print} (${file}:${line})`)
          .join(', ');
        throw refused(
          `the key of the server has changed: it shows ${shown}, but the known key is ${before}`,
          `someone may be intercepting the connection; if its owner confirms the new key, remove the old with \`ssh-keygen -R '${nameOf(host, port)}' -f ${file}\``,
        );
      }
      case 'unknown':
        if (hostKeyPolicy === 'strict')
          throw refused(
            `the key of the server is not known: ${shown}`,
            `check it with the server's owner and add it to ${file}, as with \`ssh-keyscan -p ${port} ${host}\`; or set host_key_policy: accept-new`,
          );
        if (options.remember)
          log.info(
            { storage: label, fingerprint: fingerprint(key) },
            'the key of the server was new and has been added to known_hosts_file',
          );
    }
  }

  function refused(why: string, hint: string): WaybillError {
    return new WaybillError('storage_denied', `${label}: ${why}`, { hint });
  }
}

function algorithmsOf(type: string): string[] {
  return type === 'ssh-rsa' ? ['rsa-sha2-512', 'rsa-sha2-256'] : [type];
}
