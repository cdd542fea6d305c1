import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { CommanderError } from 'commander';
import t from 'tap';
import { sceneMapCommand } from '../../../../src/cli/commands/scene-map/scene-map-command.ts';
import { sceneMapSchemaText } from '../../../../src/core/scene-map/schema-file.ts';
import { waybill } from '../../process.ts';

const examples = 'examples/scene-maps';
const sound = `${examples}/session-42.json`;
const invalid = `${examples}/session-42-invalid.json`;
const findings = `${examples}/session-42-findings.json`;

interface Outcome {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** Runs the command like a program would, with streams that record their content. */
async function run(args: string[], stdin = ''): Promise<Outcome> {
  const outcome: Outcome = { code: null, stdout: '', stderr: '' };
  const sink = (name: 'stdout' | 'stderr'): Writable =>
    new Writable({
      write(chunk: Buffer, _encoding, done) {
        outcome[name] += chunk.toString();
        done();
      },
    });
  const io = {
    stdin: Readable.from([Buffer.from(stdin)]),
    stdout: sink('stdout'),
    stderr: sink('stderr'),
    setExitCode: (code: number) => (outcome.code = code),
  };
  const command = sceneMapCommand(io);
  for (const one of [command, ...command.commands])
    one.exitOverride().configureOutput({ writeErr: (text) => (outcome.stderr += text) });
  await command.parseAsync(args, { from: 'user' });
  return outcome;
}

t.test('a valid map passes, also with its transcript as JSON Lines or WebVTT', async (t) => {
  t.same(await run(['validate', sound]), { code: 0, stdout: `${sound}: valid\n`, stderr: '' });
  for (const transcript of ['session-42.transcript.jsonl', 'session-42.vtt']) {
    t.equal((await run(['validate', sound, '--transcript', `${examples}/${transcript}`])).code, 0);
  }
});

t.test('reports every schema finding of an invalid map with line, column and pointer', async (t) => {
  const { code, stdout } = await run(['validate', invalid, sound]);
  t.equal(code, 1);
  t.match(
    stdout,
    /error not_in_enumeration .*session-42-invalid\.json:\d+:\d+ \/scenes\/1\/primary_mode: .*Did you mean "Planning"/,
  );
  t.match(stdout, /error missing_property .* \/scenes\/2: Scene 3 lacks the required property "summary"/);
  t.match(stdout, /error wrong_type .* \/scenes\/3\/start_segment_id: .*Remove the quotes/);
  t.match(stdout, /error unknown_property .* \/notes:/);
  t.match(stdout, /invalid \(4 errors, 0 warnings\)\n.*session-42\.json: valid\nnext .*\n$/);
});

t.test('content findings fail the command unless --schema-only', async (t) => {
  const checked = await run(['validate', findings]);
  t.equal(checked.code, 1);
  t.match(checked.stdout, /valid, breaks content rules \(0 errors, 3 warnings\)/);
  t.equal((await run(['validate', findings, '--schema-only'])).code, 0);
});

t.test('prints the report as JSON, SARIF and GitHub annotations', async (t) => {
  const json = JSON.parse((await run(['validate', findings, '--format', 'json'])).stdout) as object;
  t.match(json, {
    schema_version: 1,
    valid: true,
    clean: false,
    files: [
      {
        file: findings,
        valid: true,
        findings: [{ code: 'gap' }, { code: 'overlap' }, { code: 'summary_too_long' }],
      },
    ],
  });
  const sarif = JSON.parse((await run(['validate', invalid, '--format', 'sarif'])).stdout) as object;
  t.match(sarif, {
    version: '2.1.0',
    runs: [
      {
        tool: { driver: { name: /waybill/, rules: Array } },
        results: [
          {
            level: 'error',
            locations: [
              { physicalLocation: { artifactLocation: { uri: invalid }, region: { startLine: Number } } },
            ],
          },
        ],
      },
    ],
  });
  const github = (await run(['validate', invalid, findings, '--format', 'github'])).stdout
    .trimEnd()
    .split('\n');
  t.equal(github.length, 7);
  t.match(
    github[0],
    /^::error file=examples\/scene-maps\/session-42-invalid\.json,line=\d+,col=\d+,title=scene map%3A \w+::/,
  );
  t.match(github.at(-1), /^::warning /);
  const hostile = (await run(['validate', '-', '--format', 'github'], '{"a\\n::error::x%": 1}')).stdout;
  t.notMatch(hostile, /^::error::x/m, 'a document cannot write annotations');
});

t.test('reads standard input once', async (t) => {
  t.equal((await run(['validate', '-'], await readFile(sound, 'utf8'))).stdout, '<stdin>: valid\n');
  await t.rejects(run(['validate', '-', '-']), { code: 'usage' });
  await t.rejects(run(['validate', '-', '--transcript', '-']), { code: 'usage' });
});

t.test('does not print control characters for a terminal', async (t) => {
  const { stdout } = await run(['validate', '-'], '{"\\u001b[31mred\\u202e": 1}');
  t.notMatch(stdout, /[\u001b\u202e]/);
});

t.test('rejects wrong usage', async (t) => {
  await t.rejects(run(['validate']), CommanderError);
  await t.rejects(run(['validate', sound, '--format', 'xml']), CommanderError);
  await t.rejects(run(['validate', 'not-there.json']), { code: 'usage', message: /not-there\.json/ });
  await t.rejects(run(['validate', sound, '--transcript', 'README-none']), { code: 'usage' });
  await t.rejects(run(['validate', sound, '--transcript', 'package.json']), { code: 'usage' });
});

t.test('schema prints the schema of the repository', async (t) => {
  t.equal((await run(['schema'])).stdout, sceneMapSchemaText());
});

t.test('render writes a page, but none for an invalid document', async (t) => {
  const file = join(t.testdir(), 'page.html');
  t.equal((await run(['render', findings, '-o', file])).code, 0);
  const page = await readFile(file, 'utf8');
  t.match(page, /^<!doctype html>/);
  t.match(page, /Segments 53 to 56 are in no scene/);
  t.equal((await run(['render', findings])).stdout, page, 'the same bytes on stdout');
  const refused = await run(['render', invalid]);
  t.match(refused, { code: 1, stdout: '', stderr: /Invalid documents are not rendered/ });
  await t.rejects(run(['render', sound, '-o', join(t.testdir(), 'none', 'page.html')]), { code: 'usage' });
});

t.test('render does not replace the scene map or its transcript', async (t) => {
  const place = t.testdir({ 'map.json': await readFile(sound, 'utf8'), 'ids.json': '[{"segment_id": 1}]' });
  const [map, ids] = [join(place, 'map.json'), join(place, 'ids.json')];
  const before = [await readFile(map, 'utf8'), await readFile(ids, 'utf8')];
  for (const output of [map, ids])
    await t.rejects(run(['render', map, '--transcript', ids, '-o', output]), {
      code: 'usage',
      message: `"${output}" cannot be written: the command reads it`,
      hint: 'name another file for the output',
    });
  t.same([await readFile(map, 'utf8'), await readFile(ids, 'utf8')], before);
});

t.test('stats count scenes and segments', async (t) => {
  const stats = JSON.parse((await run(['stats', sound, '--format', 'json'])).stdout) as object;
  t.match(stats, {
    schema_version: 1,
    scenes: 7,
    segments: 300,
    modes: { Combat: { scenes: 1, segments: 88 } },
    longest: { scene_id: 'S5', segments: 88 },
    shortest: { scene_id: 'S1', segments: 14 },
  });
  t.match((await run(['stats', sound])).stdout, /7 scenes over 300 segments[^]*Tamsin Reed +7 scenes/);
  t.equal((await run(['stats', invalid])).code, 1);
});

t.test('the built program recognizes quotation marks outside ASCII', async (t) => {
  const map = JSON.parse(await readFile(sound, 'utf8')) as { scenes: { summary: string }[] };
  map.scenes[0]!.summary = '“Go. Run. Hide. Now,” he said. They went.';
  const { stdout, stderr } = waybill(['scene-map', 'validate', '-'], {
    input: Buffer.from(JSON.stringify(map)),
  });
  t.same([stdout, stderr], ['<stdin>: valid\n', '']);
});
