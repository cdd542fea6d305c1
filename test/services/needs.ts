import { readFileSync } from 'node:fs';

/**
 * Everything the tests run that Node.js does not bring along: its programs, and the Debian packages that
 * contain them. `npm test` installs whatever the chosen test files need in one go and starts them then; a
 * file that runs by itself asks for its own needs. Nothing else in the project looks for programs or calls
 * apt.
 */
export const needs = {
  buildah: { programs: ['buildah'], packages: ['buildah'] },
  caddy: { programs: ['caddy'], packages: ['caddy'] },
  // A browser without windows needs half as many packages as one with.
  chromium: { programs: ['chromium'], packages: ['chromium-headless-shell'] },
  cleanRoot: {
    programs: ['mmdebstrap', 'chroot', 'tar'],
    packages: ['mmdebstrap', 'coreutils', 'tar'],
  },
  dropbear: {
    programs: ['dropbear', 'dropbearkey'],
    packages: ['dropbear-bin', 'openssh-sftp-server'],
  },
  curl: { programs: ['curl'], packages: ['curl'] },
  faketime: { programs: ['faketime'], packages: ['faketime'] },
  git: { programs: ['git'], packages: ['git'] },
  fish: { programs: ['fish'], packages: ['fish'] },
  hugo: { programs: ['hugo'], packages: ['hugo'] },
  jekyll: { programs: ['jekyll'], packages: ['jekyll'] },
  kubectl: { programs: ['kubectl'], packages: ['kubernetes-client'] },
  lintian: { programs: ['lintian', 'dpkg-deb'], packages: ['lintian', 'dpkg'] },
  loopDisk: {
    programs: ['mkfs.ext4'],
    packages: ['e2fsprogs'],
  },
  mandoc: { programs: ['mandoc'], packages: ['mandoc'] },
  minisign: { programs: ['minisign'], packages: ['minisign'] },
  mount: { programs: ['mount', 'umount'], packages: ['mount'] },
  namespaces: { programs: ['unshare', 'nsenter', 'fsfreeze'], packages: ['util-linux'] },
  network: { programs: ['ip'], packages: ['iproute2'] },
  nginx: { programs: ['nginx'], packages: ['nginx-light'] },
  openssl: { programs: ['openssl'], packages: ['openssl'] },
  perl: { programs: ['perl'], packages: ['perl-base'] },
  postgres: { programs: ['initdb', 'postgres', 'pg_isready'], packages: ['postgresql'] },
  prometheus: { programs: ['prometheus', 'promtool'], packages: ['prometheus'] },
  radosgw: {
    programs: ['radosgw', 'radosgw-admin', 'ceph', 'ceph-mon', 'ceph-osd', 'monmaptool'],
    packages: ['radosgw', 'ceph-mon', 'ceph-osd'],
  },
  rclone: { programs: ['rclone'], packages: ['rclone'] },
  redis: { programs: ['redis-server', 'redis-cli'], packages: ['redis-server', 'redis-tools'] },
  systemd: {
    programs: [
      'systemd-notify',
      'systemd-analyze',
      'systemd-sysusers',
      'systemd-tmpfiles',
      'systemd-socket-activate',
    ],
    packages: ['systemd'],
  },
  script: { programs: ['script'], packages: ['bsdutils'] },
  smtp: { programs: ['aiosmtpd'], packages: ['python3-aiosmtpd'] },
  strace: { programs: ['strace'], packages: ['strace'] },
  ssh: {
    programs: ['sshd', 'ssh-keygen', 'ssh-agent', 'ssh-add', 'sftp'],
    packages: ['openssh-server', 'openssh-client'],
  },
  xmllint: { programs: ['xmllint'], packages: ['libxml2-utils'] },
  zsh: { programs: ['zsh'], packages: ['zsh'] },
} as const satisfies Record<string, Need>;

export interface Need {
  readonly programs: readonly string[];
  readonly packages: readonly string[];
}

export type NeedName = keyof typeof needs;

/** The needs that these source files name, sorted. */
export function needsOf(files: readonly string[]): NeedName[] {
  const calls = files.flatMap((file) => [
    ...readFileSync(file, 'utf8').matchAll(/\bensureInstalled\(([^)]*)\)/g),
  ]);
  const named = calls.flatMap(([, names = '']) => [...names.matchAll(/'([^']*)'/g)]);
  return [...new Set(named.map(([, name]) => name as NeedName))].sort();
}
