/*
 * Finds out where the repository of a release is. For npm provenance, `repository` in the package must be the
 * repository that the build ran in. The URL is not part of the source; it comes from the clone that was
 * built.
 */

/** The path of the issue tracker on well-known hosts, relative to the repository. */
const issues = {
  'github.com': '/issues',
  'gitlab.com': '/-/issues',
  'codeberg.org': '/issues',
};

/**
 * Converts the URL of a repository to its public form, `https://HOST/PATH`. It can be in any form that git or
 * npm accept: an https, ssh or git URL, or `user@host:path`. Usernames, passwords and `.git` are removed,
 * because some CI systems clone from URLs with a token. Returns `undefined` for directories, plain http, and
 * addresses that are local or in a private network.
 */
export function publicRepository(address) {
  const url = urlOf(address.trim());
  if (url === undefined || !isPublicName(url.hostname)) return undefined;
  const name = url.pathname.replace(/\/+$/, '').replace(/\.git$/, '');
  if (!/^\/[^/]+\/./.test(name) || url.search !== '' || url.hash !== '') return undefined;
  // The port for SSH is not the port for the website.
  return `https://${url.protocol === 'https:' ? url.host : url.hostname}${name}`;
}

/**
 * Returns the URL of the repository as `{ address }`. It comes from the option, from package.json, or from
 * the remote `origin` of the clone, in this order. If there is no public URL, returns `{ problem }` with the
 * reason.
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
  // Do not print anything before the host, because it can contain a password.
  const shown = given.replace(/\/\/\S*@/, '//');
  return { problem: `${where} is no public address: "${shown}"; ${remedy}` };
}

const remedy = 'name it: npm run package -- --release --repository https://HOST/OWNER/NAME';

/** Returns `repository`, `bugs` and `homepage` for package.json. */
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
  // The URL parser only checks the host and makes it lowercase if the scheme is https.
  const { protocol } = new URL(written);
  const checked = written.replace(/^\w+:/, 'https:');
  if (!URL.canParse(checked)) return undefined;
  const { hostname, host: withPort, pathname, search, hash } = new URL(checked);
  return { protocol, hostname, host: withPort, pathname, search, hash };
}

/** Reports whether this could be a public hostname. npm checks whether it exists. */
function isPublicName(host) {
  return (
    /^(?:[a-z\d](?:[a-z\d-]*[a-z\d])?\.)+[a-z][a-z\d-]*[a-z\d]$/.test(host) &&
    !/\.(?:local|localhost|localdomain|internal|intranet|lan|corp|home|test|invalid|home\.arpa)$/.test(host)
  );
}
