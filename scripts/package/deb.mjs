/*
 * `npm run package:deb [-- DIRECTORY] [--version VERSION]`: creates `waybill_VERSION_all.deb` from a build,
 * and prints its name. DIRECTORY is the current one by default. Requires dpkg-deb, but no network.
 *
 * Packages are reproducible: all times are SOURCE_DATE_EPOCH or, if that is not set, the time of the last
 * commit. The maintainer is taken from DEBFULLNAME and DEBEMAIL.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  lstatSync,
  lutimesSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { parseArgs } from 'node:util';
import { gzipSync } from 'node:zlib';

const templates = path.join(import.meta.dirname, 'debian');
const home = 'usr/lib/waybill';
const documents = 'usr/share/doc/waybill';
// Files to leave out: machine code and timestamps from this machine, types, source maps, and the other entry
// point.
const notOfProgram = /\/\.|\.(?:cache|made-by|map|d\.ts)$|NOTICES|^dist\/cli\/main\.js$/;
const manifest = JSON.parse(readFileSync('package.json', 'utf8'));
const { target, version } = readArguments();
const time = buildTime();
if (!existsSync('dist/bundle/waybill.cjs')) fail('the program is not built: npm run build', 1);

const root = mkdtempSync(path.join(tmpdir(), 'waybill-deb-'));
chmodSync(root, 0o755);
try {
  copyProgram();
  copyForSystem();
  writeDocuments();
  writeControl();
  for (const file of [...everythingIn(root), root]) lutimesSync(file, time, time);
  const name = path.join(target, `waybill_${version}_all.deb`);
  mkdirSync(target, { recursive: true });
  execFileSync('dpkg-deb', ['--root-owner-group', '-Zxz', '--build', root, name], {
    // The output of xz depends on the number of threads.
    env: { ...process.env, SOURCE_DATE_EPOCH: String(time), DPKG_DEB_THREADS_MAX: '1' },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  console.log(name);
} finally {
  rmSync(root, { recursive: true, force: true });
}

/** Copies the program and its data files to /usr/lib/waybill. */
function copyProgram() {
  for (const directory of ['dist', 'schemas', 'templates'])
    for (const file of everythingIn(directory))
      if (lstatSync(file).isFile() && !notOfProgram.test(file)) copy(file, `${home}/${file}`);
  const { name, license, type, engines, peerDependencies, peerDependenciesMeta } = manifest;
  const own = {
    name,
    version: manifest.version,
    license,
    type,
    engines,
    peerDependencies,
    peerDependenciesMeta,
  };
  write(`${home}/package.json`, `${JSON.stringify(own, null, 2)}\n`);
  for (const [command, file] of Object.entries(manifest.bin))
    link(`../lib/waybill/${file}`, `usr/bin/${command}`);
}

/** Copies systemd units, manual pages, shell completions and the configuration. */
function copyForSystem() {
  for (const file of readdirSync('deploy/systemd')) {
    const [, kind] = /^waybill\.(sysusers|tmpfiles)\.conf$/.exec(file) ?? [];
    const place = kind === undefined ? `usr/lib/systemd/system/${file}` : `usr/lib/${kind}.d/waybill.conf`;
    copy(`deploy/systemd/${file}`, place);
  }
  for (const page of readdirSync('man'))
    write(`usr/share/man/man1/${page}.gz`, compressed(readFileSync(`man/${page}`)));
  for (const [shell, place] of Object.entries({
    bash: 'bash-completion/completions/waybill',
    zsh: 'zsh/vendor-completions/_waybill',
    fish: 'fish/vendor_completions.d/waybill.fish',
  }))
    write(
      `usr/share/${place}`,
      execFileSync(process.execPath, ['dist/bundle/waybill.cjs', 'completion', shell]),
    );
  copy(path.join(templates, 'waybill.yml'), 'etc/waybill/waybill.yml');
}

function writeDocuments() {
  const notices = readFileSync('dist/THIRD-PARTY-NOTICES.txt');
  write(`${documents}/THIRD-PARTY-NOTICES.txt.gz`, compressed(notices));
  write(`${documents}/CHANGELOG.md.gz`, compressed(readFileSync('CHANGELOG.md')));
  write(`${documents}/copyright`, copyrightOf(readFileSync('LICENSE', 'utf8')));
  const date = new Date(time * 1000).toUTCString().replace('GMT', '+0000');
  const changes = `waybill (${version}) unstable; urgency=medium

  * Release ${version}. ${`/${documents}`}/CHANGELOG.md.gz lists the changes.

 -- ${maintainer()}  ${date}
`;
  write(`${documents}/changelog.gz`, compressed(changes));
}

/**
 * Returns the license in the format of https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/.
 */
function copyrightOf(license) {
  const [, , holder = '', , ...terms] = license.split('\n');
  const indented = terms.map((line) => (line === '' ? ' .' : ` ${line}`)).join('\n');
  const bundled = JSON.parse(readFileSync('dist/.bundled.json', 'utf8')).sort();
  return `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: waybill
Comment:
 The program includes the packages below. /${documents}/THIRD-PARTY-NOTICES.txt.gz
 has the license and the copyright notice of each. On Debian systems, the text
 of the Apache License 2.0 is also in /usr/share/common-licenses/Apache-2.0.
 .
${bundled.map((name) => ` ${name}`).join('\n')}

Files: *
Copyright: ${holder.replace(/^Copyright \(c\) /, '')}
License: Expat
${indented.replace(/(?:\n \.)+$/, '')}

Files: ${home}/templates/fonts/*
Copyright: 2016 The Inter Project Authors
License: OFL-1.1
 The text of the license is in ${home}/templates/fonts/OFL.txt.
`;
}

function writeControl() {
  const files = everythingIn(root).filter((file) => lstatSync(file).isFile());
  const size = Math.ceil(files.reduce((total, file) => total + lstatSync(file).size, 0) / 1024);
  const sums = files
    .map((file) => path.relative(root, file))
    .filter((file) => !file.startsWith('etc/'))
    .map(
      (file) =>
        `${createHash('md5')
          .update(readFileSync(path.join(root, file)))
          .digest('hex')}  ${file}\n`,
    );
  write(
    'DEBIAN/control',
    `Package: waybill
Version: ${version}
Architecture: all
Maintainer: ${maintainer()}
Installed-Size: ${size}
Depends: nodejs (${manifest.engines.node.replace('>=', '>= ')}), systemd | systemd-standalone-sysusers, init-system-helpers (>= 1.54)
Suggests: npm
Section: web
Priority: optional
Description: publish bundles of files to directories, SFTP and S3
 waybill publishes directories of files with a manifest to local directories,
 SFTP servers and S3 buckets. It keeps a catalog of what it published, switches
 releases atomically and recovers from interruptions. It runs as a command or
 as a daemon that accepts uploads over HTTP.
`,
  );
  write('DEBIAN/md5sums', sums.join(''));
  write('DEBIAN/conffiles', '/etc/waybill/waybill.yml\n');
  for (const script of ['postinst', 'prerm', 'postrm'])
    copy(path.join(templates, script), `DEBIAN/${script}`);
}

function maintainer() {
  const { DEBFULLNAME = 'The waybill contributors', DEBEMAIL = 'waybill@example.org' } = process.env;
  return `${DEBFULLNAME} <${DEBEMAIL}>`;
}

/** Returns the time to use for all files, in seconds. */
function buildTime() {
  const given = process.env.SOURCE_DATE_EPOCH;
  if (given !== undefined)
    return /^\d+$/.test(given) ? Number(given) : fail('SOURCE_DATE_EPOCH is not a number', 2);
  try {
    return Number(execFileSync('git', ['log', '-1', '--format=%ct'], { encoding: 'utf8' }));
  } catch {
    return fail('the time is unknown: set SOURCE_DATE_EPOCH, or run this in a clone', 1);
  }
}

function copy(from, to) {
  write(to, readFileSync(from));
}

function write(to, content) {
  const file = prepared(to);
  writeFileSync(file, content);
  chmodSync(file, String(content).startsWith('#!') ? 0o755 : 0o644);
}

function link(to, from) {
  symlinkSync(to, prepared(from));
}

/** Creates the directory of a file and makes sure that everyone can read it, regardless of the umask. */
function prepared(name) {
  const file = path.join(root, name);
  const directory = path.dirname(name);
  mkdirSync(path.join(root, directory), { recursive: true });
  for (let part = directory; part !== '.'; part = path.dirname(part)) chmodSync(path.join(root, part), 0o755);
  return file;
}

/** Compresses a file without a timestamp, which makes the result reproducible. */
function compressed(content) {
  return gzipSync(content, { level: 9 });
}

/** Lists all files, links and directories. A directory comes after its contents. */
function everythingIn(directory) {
  return readdirSync(directory, { withFileTypes: true })
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => {
      const file = path.join(directory, entry.name);
      return entry.isDirectory() ? [...everythingIn(file), file] : [file];
    });
}

function readArguments() {
  try {
    const options = { version: { type: 'string' } };
    const { values, positionals } = parseArgs({ options, allowPositionals: true });
    if (positionals.length > 1) throw new TypeError(`one directory, not ${positionals.join(' and ')}`);
    const version = values.version ?? debianVersion(manifest.version);
    if (!/^\d[A-Za-z\d.+~]*$/.test(version)) throw new TypeError(`"${version}" is not a version of Debian`);
    return { target: positionals[0] ?? '.', version };
  } catch (error) {
    return fail(error.message, 2);
  }
}

/** To Debian, 1.0.0-rc.1 is later than 1.0.0, but 1.0.0~rc.1 is earlier. */
function debianVersion(text) {
  return text.replace('-', '~');
}

function fail(message, code) {
  console.error(`npm run package:deb: ${message}`);
  process.exit(code);
}
