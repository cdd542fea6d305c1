/*
 * Where the source of a release is: npm takes a provenance only of a package whose `repository` is the one
 * that its build ran for. No address is written down here; that of the clone is the one it was built from.
 */

/** Path of the issue tracker of a repository on known hosts. */
const issues = {
  'github.com': '/issues',
  'gitlab.com': '/-/issues',
  'codeberg.org': '/issues',
};

/**
 * The address `https://HOST/PATH` of a repository that anybody can look for, from what git or npm call it:
 * an https, ssh or git URL, or `user@host:path`. `undefined` for a directory, an address of this machine or
 * of its network, and plain http. User, password and `.git` are dropped: a job's token is part of the URL
 * that some CI clones from. Pure.
 */
export function publicRepository(address) {
  const url = urlOf(address.trim());
  if (url === undefined || !isPublicName(url.hostname)) return undefined;
  const name = url.pathname.replace(/\/+$/, '').replace(/\.git$/, '');
  if (!/^\/[^/]+\/./.test(name) || url.search !== '' || url.hash !== '') return undefined;
  // An SSH port is not a web port.
  return `https://${url.protocol === 'https:' ? url.host : url.hostname}${name}`;
}

/**
 * The address that a package is to name, as `{ address }`: that of the option, else the manifest's own, else
 * that of the clone's remote `origin`; or as `{ problem }` why there is none, in one sentence. Pure.
 */
export function chosenRepository({ option, manifest, origin }) {
  const own = typeof manifest.repository === 'string' ? manifest.repository : manifest.repository?.url;
  const [where, given] = [
    ['--repository', option],
    ['the repository of package.json', own],
    ['the remote "origin"', origin],
  ].find(([, value]) => value !== undefined) ?? [''];
  if (given === undefined)
    return { problem: `no repository is known: this clone has no remote "origin"; ${remedy}` };
  const address = publicRepository(given);
  if (address !== undefined) return { address };
  // What stands before the host may be a password.
  const shown = given.replace(/\/\/\S*@/, '//');
  return { problem: `${where} is no public address: "${shown}"; ${remedy}` };
}

const remedy = 'name it: npm run package -- --release --repository https://HOST/OWNER/NAME';

/** What a packed manifest says of a repository at this `https://` address. Pure. */
export function repositoryKeys(address) {
  const path = issues[new URL(address).hostname];
  return {
    repository: { type: 'git', url: `git+${address}.git` },
    homepage: `${address}#readme`,
    ...(path === undefined ? {} : { bugs: { url: `${address}${path}` } }),
  };
}

function urlOf(text) {
  const [, host, name] = /^(?:[^@/\s]+@)?([^@/:\s]+):(?!\/\/)\/?(\S+)$/.exec(text) ?? [];
  const written = host === undefined ? text.replace(/^git\+/, '') : `ssh://${host}/${name}`;
  if (!/^(?:https|ssh|git):\/\/\S+$/.test(written) || !URL.canParse(written)) return undefined;
  // Only of https does the parser check the host, and write it in small letters.
  const { protocol } = new URL(written);
  const checked = written.replace(/^\w+:/, 'https:');
  if (!URL.canParse(checked)) return undefined;
  const { hostname, host: withPort, pathname, search, hash } = new URL(checked);
  return { protocol, hostname, host: withPort, pathname, search, hash };
}

/** A name of the public DNS by its form; whether it is there is for npm to find out. */
function isPublicName(host) {
  return (
    /^(?:[a-z\d](?:[a-z\d-]*[a-z\d])?\.)+[a-z][a-z\d-]*[a-z\d]$/.test(host) &&
    !/\.(?:local|localhost|localdomain|internal|intranet|lan|corp|home|test|invalid|home\.arpa)$/.test(host)
  );
}
