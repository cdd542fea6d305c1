/*
 * The source repository of a release. npm accepts provenance only if the package's `repository` is the one
 * that its build ran for. No address is hard-coded: it comes from the clone that was built.
 */

/** Path of the issue tracker of a repository on known hosts. */
const issues = {
  'github.com': '/issues',
  'gitlab.com': '/-/issues',
  'codeberg.org': '/issues',
};

/**
 * Returns the public address `https://HOST/PATH` of a repository for the form that git or npm use: an https,
 * ssh or git URL, or `user@host:path`. `undefined` for a directory, an address of this machine or a private
 * network, and plain http. Drops user, password and `.git`: some CI systems clone from URLs with a job token.
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
 * Returns the repository address for the package as `{ address }`: the option, else the manifest's value,
 * else the clone's remote `origin`. Otherwise returns `{ problem }` with the reason in one sentence.
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
  // The part before the host may contain a password.
  const shown = given.replace(/\/\/\S*@/, '//');
  return { problem: `${where} is no public address: "${shown}"; ${remedy}` };
}

const remedy = 'name it: npm run package -- --release --repository https://HOST/OWNER/NAME';

/** The `repository`, `bugs` and `homepage` fields of a packed manifest for this `https://` address. */
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
  // The parser validates and lowercases the host only for https.
  const { protocol } = new URL(written);
  const checked = written.replace(/^\w+:/, 'https:');
  if (!URL.canParse(checked)) return undefined;
  const { hostname, host: withPort, pathname, search, hash } = new URL(checked);
  return { protocol, hostname, host: withPort, pathname, search, hash };
}

/** A syntactically valid public DNS name. npm checks whether it exists. */
function isPublicName(host) {
  return (
    /^(?:[a-z\d](?:[a-z\d-]*[a-z\d])?\.)+[a-z][a-z\d-]*[a-z\d]$/.test(host) &&
    !/\.(?:local|localhost|localdomain|internal|intranet|lan|corp|home|test|invalid|home\.arpa)$/.test(host)
  );
}
