import type { SftpLocation } from './location.ts';
import { WaybillError } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
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

export interface HostKeyCheck {
  /** The algorithms to offer, those of known keys first, because a server picks the first that it has. */
  algorithms: string[];
  /** Rejects with `storage_denied` if the policy of the location does not accept the server's key. */
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
 * The host key check of a location. If `remember` is false, as in a dry run, a new key is accepted for this
 * connection but not written to the known hosts file. Throws `storage_permanent` if that file cannot be read.
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
    // Another connection may have added a key of this host meanwhile.
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
