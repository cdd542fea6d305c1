import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import t, { type Test } from 'tap';
import { ensureInstalled, pathOf } from '../../services/debian.ts';
import { program, waybill } from '../process.ts';

/** Completion in each shell, with the built program. */

const config = `pipelines:
  - {id: maps, source: {backend: local, path: ./in}, destinations: [{id: web, backend: local, path: ./w}]}
  - {id: talks, source: {backend: local, path: ./in2}, destinations: [{id: cdn, backend: nonsense}]}
notifiers: [{id: hook}]
`;

const words = (cwd: string, ...line: string[]): string[] => {
  const { status, stdout } = waybill(['completion', 'words', '--', ...line], { cwd });
  t.equal(status, 0);
  return stdout.split('\n').flatMap((each) => (each === '' ? [] : [each.split('\t')[0] ?? '']));
};

t.test('completes commands, options, choices and run words', (t) => {
  const place = t.testdir({ 'c.yml': config });
  const all = words(place, '');
  for (const name of ['run', 'init', 'config', 'completion']) t.ok(all.includes(name), name);
  t.notOk(all.includes('words'));
  t.same(words(place, 're'), ['releases', 'reload', 'reconcile-state']);
  t.same(words(place, 'config', ''), ['check', 'schema']);
  t.same(words(place, 'init', 's'), ['s3', 'sftp']);
  t.same(words(place, 'run', '--for'), ['--force', '--format']);
  t.same(words(place, 'run', '--format', ''), ['text', 'json']);
  t.same(words(place, 'run', '--format=j'), ['--format=json']);
  t.same(words(place, 'run', '-c', ''), [], 'a file');
  t.same(words(place, 'nonsense', ''), []);
  t.end();
});

t.test('ids come from the configuration on the command line, even if it is invalid', (t) => {
  const place = t.testdir({ 'c.yml': config, 'bad.yml': '{' });
  t.same(words(place, 'run', '-c', 'c.yml', '-p', ''), ['maps', 'talks']);
  t.same(words(place, 'run', '--config=c.yml', '--pipeline', 't'), ['talks']);
  t.same(words(place, 'run', '-c', 'c.yml', '-d', ''), ['web', 'cdn']);
  t.same(words(place, 'run', '-c', 'c.yml', '-p', 'talks', '-d', ''), ['cdn']);
  t.same(words(place, 'notify', 'test', '-c', 'c.yml', '-n', ''), ['hook']);
  t.same(words(place, 'run', '-p', ''), []);
  for (const file of ['gone.yml', 'bad.yml', '.']) t.same(words(place, 'run', '-c', file, '-p', ''), []);
  t.end();
});

/** A directory for PATH with the built program as `waybill`, and a configuration next to it. */
function installed(t: Test): { cwd: string; env: NodeJS.ProcessEnv } {
  const cwd = t.testdir({ 'c.yml': config });
  mkdirSync(path.join(cwd, 'bin'));
  const command = path.join(cwd, 'bin/waybill');
  writeFileSync(command, `#!/bin/sh\nexec "${process.execPath}" "${program}" "$@"\n`);
  chmodSync(command, 0o755);
  return {
    cwd,
    env: { ...process.env, PATH: `${cwd}/bin:${process.env['PATH']}`, HOME: cwd, TERM: 'xterm' },
  };
}

t.test('bash', (t) => {
  const at = installed(t);
  const complete = (...line: string[]): string[] => {
    const script = `source <(waybill completion bash)
      COMP_WORDS=(waybill ${line.map((word) => `'${word}'`).join(' ')}) COMP_CWORD=${line.length}
      _waybill; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const options = { ...at, encoding: 'utf8' } as const;
    return execFileSync('bash', ['-c', script], options).trim().split('\n');
  };
  t.same(complete('conf'), ['config']);
  t.same(complete('help', 'conf'), ['config']);
  t.same(complete('help', 'releases', 'ro'), ['rollback']);
  t.same(complete('run', '-c', 'c.yml', '-p', ''), ['maps', 'talks']);
  t.same(complete('run', '--format', '=', 'js'), ['json']);
  t.same(complete('run', '--format', '='), ['text', 'json']);
  t.same(complete('run', '-c', ''), [''], 'left to the shell');
  t.end();
});

t.test('fish', async (t) => {
  await ensureInstalled('fish');
  const at = installed(t);
  const complete = (line: string): string[] => {
    const script = `waybill completion fish | source; complete -C ${JSON.stringify(line)}`;
    return execFileSync(pathOf('fish') ?? '', ['-c', script], { ...at, encoding: 'utf8' })
      .trim()
      .split('\n')
      .map((each) => each.split('\t')[0] ?? '');
  };
  t.same(complete('waybill conf'), ['config']);
  t.same(complete('waybill run -c c.yml -p '), ['maps', 'talks']);
  t.ok(complete('waybill run -c c').includes('c.yml'), 'a file');
});

t.test('zsh', async (t) => {
  await ensureInstalled('zsh');
  const at = installed(t);
  // A terminal for a shell, in which the test types the start of a line and presses the completion key.
  const script = `zmodload zsh/zpty
    zpty z zsh -f -i
    zpty -w z "PS1='> '; autoload -U compinit; compinit -u -D; source <(waybill completion zsh); echo read''y"
    zpty -r -m z seen '*ready*'
    zpty -w -n z "waybill inspe"$'\\t'"-c c.yml -p tal"$'\\t'"; "
    zpty -r -m z seen '*-p talks*'
    print -r -- "$seen"; zpty -d z`;
  const { stdout, status } = spawnSync(pathOf('zsh') ?? '', ['-f', '-c', script], {
    ...at,
    encoding: 'utf8',
  });
  t.equal(status, 0);
  t.match(stripVTControlCharacters(stdout), /waybill inspect\W*-c c\.yml -p talks/);
});
