/** The platform that this program runs on, as described by `process`. */
interface Platform {
  /** The version of Node.js: `20.19.0`. */
  readonly node: string;
  /** The operating system: `linux`. */
  readonly platform: NodeJS.Platform;
  /** The CPU architecture: `x64`. */
  readonly arch: NodeJS.Architecture;
}

/** Keep in sync with `engines` in package.json. */
const oldest = { major: 20, minor: 19 };
const architectures32Bit = new Set<NodeJS.Architecture>(['arm', 'ia32', 'mips', 'mipsel']);

/**
 * Returns null if waybill supports the platform. Otherwise, returns two lines with the reason and what to do
 * about it.
 */
export function unsupportedReason({ node, platform, arch }: Platform): string | null {
  const [major = 0, minor = 0] = node.split('.').map(Number);
  if (platform === 'win32')
    return unsupported(
      'waybill does not run on Windows, whose files cannot be replaced while they are read',
      'run it on Linux: in WSL 2, a container or a machine of its own',
    );
  if (architectures32Bit.has(arch))
    return unsupported(
      `waybill needs a 64-bit system, and this Node.js is made for ${arch}`,
      'install Node.js for x64 or arm64',
    );
  if (major < oldest.major || (major === oldest.major && minor < oldest.minor))
    return unsupported(
      `waybill needs Node.js ${oldest.major}.${oldest.minor} or newer, and this is ${node}`,
      'install a newer Node.js, and start waybill with that: https://nodejs.org/en/download',
    );
  return null;
}

function unsupported(what: string, next: string): string {
  return `error  ${what}\nnext   ${next}\n`;
}

/*
 * Every program has to import this first. On a platform that is not supported, other modules may fail to load
 * with errors that do not explain why.
 */
const refusal = unsupportedReason({
  node: process.versions.node,
  platform: process.platform,
  arch: process.arch,
});
if (refusal !== null) {
  process.stderr.write(refusal);
  process.exit(2);
}
