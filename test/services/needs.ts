import { readFileSync } from 'node:fs';

/**
 * All programs for tests that are not part of Node.js, and the Debian packages that contain them. `npm test`
 * installs the needs of the selected test files together before it starts them. A file that runs alone
 * installs its own needs. No other code of the project searches for programs or calls apt.
 */
export const needs = {
  buildah: { programs: ['buildah'], packages: ['buildah'] },
  caddy: { programs: ['caddy'], packages: ['caddy'] },
  // A browser without a graphical interface needs half as many packages.
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

/** The needs in these source files, sorted. */
export function needsOf(files: readonly string[]): NeedName[] {
  const calls = files.flatMap((file) => [
    ...readFileSync(file, 'utf8').matchAll(/\bensureInstalled\(([^)]*)\)/g),
  ]);
  const named = calls.flatMap(([, names = '']) => [...names.matchAll(/'([^']*)'/g)]);
  return [...new Set(named.map(([, name]) => name as NeedName))].sort();
}
