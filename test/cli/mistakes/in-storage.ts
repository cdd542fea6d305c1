import { chmodSync, mkdirSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { manifest } from '../process.ts';
import { keys, local, type Mistake, s3, type Servers, sshKey, to } from './mistake.ts';

const bundle = { 'source/one/manifest.json': manifest(['a.txt']), 'source/one/a.txt': 'a' };
const run = ['run', '-c', 'c.yml'];
const sftp = (more: string, port = 1): string =>
  to(`backend: sftp, host: 127.0.0.1, port: ${port}, user: u, path: p, known_hosts_file: ./known${more}`);
const withKey = 'ssh_key_file: ./key';
const link = (name: string, target: string) => (place: string) => symlinkSync(target, path.join(place, name));

/** Sources and destinations that do not match the configuration. */
export const inStorage = (servers: Servers): Mistake[] => [
  { name: 'a missing source', args: run, config: to(local), place: '/source', remedy: 'mkdir' },
  { name: 'a missing source, checked', config: to(local), place: '/source', remedy: 'mkdir' },
  {
    name: 'a file as source',
    args: run,
    config: to(local),
    files: { source: '' },
    place: '/source',
    remedy: 'directory',
  },
  {
    name: 'a source without bundles',
    args: run,
    config: to(local),
    prepare: (place) => mkdirSync(path.join(place, 'source')),
    place: 'the source',
    remedy: 'manifest.json',
  },
  {
    name: 'a destination through a dangling link',
    args: run,
    config: to('backend: local, path: ./link/web'),
    files: bundle,
    prepare: link('link', './gone'),
    place: './gone',
    remedy: 'link',
  },
  {
    name: 'a destination below a file',
    args: run,
    config: to('backend: local, path: ./file/web'),
    files: { ...bundle, file: '' },
    place: '/file',
    remedy: 'correct the path',
  },
  {
    name: 'a destination below /proc',
    args: run,
    config: to('backend: local, path: /proc/nope'),
    files: bundle,
    place: '/proc/nope',
    remedy: 'on a disk',
  },
  {
    name: 'a destination that may not be written to',
    args: run,
    config: to(local),
    files: bundle,
    prepare: (place) => {
      mkdirSync(path.join(place, 'web'));
      chmodSync(path.join(place, 'web'), 0o555);
    },
    unprivileged: true,
    place: 'one',
    remedy: 'write access',
  },
  {
    name: 'a configuration that may not be read',
    config: to(local),
    prepare: (place) => chmodSync(path.join(place, 'c.yml'), 0),
    unprivileged: true,
    place: 'c.yml',
    remedy: 'give the user',
  },
  {
    name: 'unmanaged files at the destination',
    args: run,
    config: to(local),
    files: { ...bundle, 'web/one/diary.txt': 'mine' },
    place: '"one"',
    remedy: '--force',
  },
  {
    name: 'no private key',
    args: run,
    config: sftp(`, ${withKey}`),
    files: bundle,
    place: '/key',
    remedy: 'private key',
  },
  {
    name: 'a private key that others can read',
    args: run,
    config: sftp(`, ${withKey}`),
    files: { ...bundle, key: sshKey },
    prepare: (place) => chmodSync(path.join(place, 'key'), 0o644),
    place: '/key',
    remedy: 'chmod 600',
  },
  {
    name: 'a private key that others can read, checked',
    config: sftp(`, ${withKey}`),
    files: { ...bundle, key: sshKey },
    prepare: (place) => chmodSync(path.join(place, 'key'), 0o644),
    place: '/key',
    remedy: 'chmod 600',
  },
  {
    name: 'a public key as private key',
    args: run,
    config: sftp(`, ${withKey}`),
    files: { ...bundle, key: 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE me@here\n' },
    prepare: (place) => chmodSync(path.join(place, 'key'), 0o600),
    place: '/key',
    remedy: '-----BEGIN',
  },
  {
    name: 'text as private key',
    args: run,
    config: sftp(`, ${withKey}`),
    files: { ...bundle, key: 'hello\n' },
    prepare: (place) => chmodSync(path.join(place, 'key'), 0o600),
    place: '/key',
    remedy: 'OpenSSH or PEM',
  },
  {
    name: 'neither key nor agent',
    args: run,
    config: sftp(''),
    files: bundle,
    place: 'SSH_AUTH_SOCK',
    remedy: 'ssh_key_file',
  },
  {
    name: 'no SFTP server',
    args: run,
    config: sftp(`, ${withKey}`, servers.closed),
    files: { ...bundle, key: sshKey },
    prepare: (place) => chmodSync(path.join(place, 'key'), 0o600),
    place: `127.0.0.1:${servers.closed}`,
    remedy: 'host',
  },
  {
    name: 'a web server instead of S3',
    args: run,
    config: s3(`http://127.0.0.1:${servers.pages}`),
    files: bundle,
    env: keys,
    place: `http://127.0.0.1:${servers.pages}`,
    remedy: 'endpoint',
  },
  {
    name: 'no server instead of S3',
    args: run,
    config: s3(`http://127.0.0.1:${servers.closed}`),
    files: bundle,
    env: keys,
    place: `127.0.0.1:${servers.closed}`,
    remedy: 'endpoint',
  },
  {
    name: 'no S3 region',
    args: run,
    config: to('backend: s3, bucket: maps, access_key_id_env: KEY, secret_access_key_env: SECRET'),
    files: bundle,
    env: keys,
    place: 'region',
    remedy: 'region',
  },
];
