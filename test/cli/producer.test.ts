import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { digestOf } from '../../src/core/digest.ts';
import { document, fingerprint, waybill } from './process.ts';

t.test('pack: an archive and what is in it, told in text and JSON', (t) => {
  const place = t.testdir({ site: { 'index.html': '<p>', sub: { a: 'A' } } });
  const site = path.join(place, 'site');
  const before = fingerprint(site);
  const env = { SOURCE_DATE_EPOCH: '1795136523' };
  t.match(waybill(['pack', 'site', '--name', 'n'], { cwd: place, env }), {
    status: 0,
    stderr: '',
    stdout: /^packed {2}site\.tar\.gz {2}2 files, 4 B, \d+ B packed {2}sha256:[0-9a-f]{64}\n$/,
  });
  const archive = readFileSync(path.join(place, 'site.tar.gz'));
  const ended = waybill(['pack', 'site', '-o', 'other.tgz', '--name', 'n', '--format', 'json'], {
    cwd: place,
    env,
  });
  t.match(document(t, ended), {
    kind: 'pack',
    manifest: { is_new: true, written: null },
    archive: { path: path.join(place, 'other.tgz'), size: archive.length, digest: digestOf(archive) },
    created: '2026-11-20T01:02:03.000Z',
    name: 'n',
    files: 2,
    bytes: 4,
  });
  t.ok(readFileSync(path.join(place, 'other.tgz')).equals(archive));
  t.same(fingerprint(site), before, 'the directory stays as it is');
  t.same(readdirSync(place).sort(), ['other.tgz', 'site', 'site.tar.gz'], 'nothing is left beside them');

  const given = ['--created', '2026-11-20T01:02:03Z', '--metadata', 'by=me', '--exclude', 'sub'];
  t.match(waybill(['pack', 'site', '--manifest-only', ...given], { cwd: place }), {
    status: 0,
    stdout: 'written  site/manifest.json  1 file, 3 B\n',
  });
  t.match(JSON.parse(readFileSync(path.join(site, 'manifest.json'), 'utf8')), {
    metadata: { by: 'me' },
    files: [{ path: 'index.html' }],
  });
  t.match(waybill(['pack', 'site', '--manifest-only'], { cwd: place, env }), {
    status: 0,
    stdout: 'valid  site/manifest.json  1 file, 3 B\n',
    stderr: /warning {2}site: 1 file is not in the manifest/,
  });
  t.end();
});

t.test('pack: what is wrong is named, and no archive is written', (t) => {
  const place = t.testdir({ site: { a: 'A' }, 'old.tgz': 'old' });
  symlinkSync('a', path.join(place, 'site', 'link'));
  t.match(waybill(['pack', 'site', '-o', 'old.tgz'], { cwd: place }), {
    status: 1,
    stdout: '',
    stderr: /site\/link: is a symbolic link/,
  });
  t.equal(readFileSync(path.join(place, 'old.tgz'), 'utf8'), 'old');
  mkdirSync(path.join(place, 'good'));
  writeFileSync(path.join(place, 'good', 'a'), 'A');
  const wrong: [string[], RegExp][] = [
    [['gone'], /"gone" is no directory/],
    [['good', '-o', 'good/x.tgz'], /would lie in what it is made of/],
    [['good', '-o', 'nowhere/x.tgz'], /cannot be written/],
    [['good', '-o', '-', '--format', 'json'], /standard output/],
    [['good', '--created', 'soon'], /RFC 3339/],
    [['good', '--name', '/a'], /absolute/],
    [['good', '--metadata', 'x'], /key=value/],
    [['good', '--metadata', 'x=1', '--metadata', 'x=2'], /twice/],
  ];
  for (const [args, said] of wrong)
    t.match(
      waybill(['pack', ...args], { cwd: place }),
      { status: 2, stdout: '', stderr: said },
      args.join(' '),
    );
  t.match(waybill(['pack', 'good'], { cwd: place, env: { SOURCE_DATE_EPOCH: 'x' } }), { status: 2 });
  t.same(readdirSync(place).sort(), ['good', 'old.tgz', 'site']);
  t.end();
});
