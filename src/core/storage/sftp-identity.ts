import { readFile } from 'node:fs/promises';
import ssh2, { type AnyAuthMethod, type ParsedKey } from 'ssh2';
import type { SftpLocation } from '../config/config.ts';
import type { Secrets } from '../config/secrets.ts';
import { WaybillError } from '../errors.ts';

/**
 * How to log in, in the order of trying: the agent first, then the key file. Throws `storage_denied` where the key cannot be used, or where there is
 * neither.
 */
export async function identities(
  location: SftpLocation,
  secrets: Secrets,
  label: string,
): Promise<AnyAuthMethod[]> {
  const { user: username } = location;
  const agent = location.sshAgentSocket ?? secrets.get('SSH_AUTH_SOCK');
  const methods: AnyAuthMethod[] = agent === undefined ? [] : [{ type: 'agent', username, agent }];
  if (location.sshKeyFile !== null)
    methods.push({
      type: 'publickey',
      username,
      ...(await readKey(location.sshKeyFile, location, secrets, label)),
    });
  if (methods.length > 0) return methods;
  throw new WaybillError('storage_denied', `${label}: there is no identity to log in with`, {
    hint: 'set ssh_key_file, or start an SSH agent and let SSH_AUTH_SOCK name its socket',
  });
}

async function readKey(
  file: string,
  { sshKeyPassphraseEnv }: SftpLocation,
  secrets: Secrets,
  label: string,
): Promise<{ key: Buffer; passphrase?: string }> {
  const unusable = (why: string, hint: string, cause?: unknown): WaybillError =>
    new WaybillError('storage_denied', `${label}: ssh_key_file "${file}" ${why}`, { cause, hint });
  const key = await readFile(file).catch((cause: unknown) => {
    const why = cause instanceof Error ? (cause.message.split(', ')[0] ?? '') : String(cause);
    throw unusable(`cannot be read: ${why}`, 'name the file of a private key that this user may read', cause);
  });
  const passphrase = sshKeyPassphraseEnv === null ? undefined : secrets.get(sshKeyPassphraseEnv);
  const parsed = ssh2.utils.parseKey(key, passphrase);
  if (!(parsed instanceof Error)) {
    const [first]: (ParsedKey | undefined)[] = Array.isArray(parsed) ? parsed : [parsed];
    if (first?.isPrivateKey() === true) return passphrase === undefined ? { key } : { key, passphrase };
    throw unusable('is a public key', 'name the file of the private key, which has no .pub');
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
      'mend that secret',
      parsed,
    );
  throw unusable(
    `is no private key: ${parsed.message}`,
    'name the file of a private key in OpenSSH or PEM form',
    parsed,
  );
}
