import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import t, { type Test } from 'tap';
import { npmPackage } from '../services/npm-package.ts';
import { waybill } from './process.ts';

/*
 * Checks the schema in editors: opens files in the YAML language server that editors use, as published on
 * npm.
 */

interface Diagnostic {
  message: string;
  range: { start: { line: number } };
}
interface Message {
  id?: number;
  method?: string;
  params?: { uri?: string; diagnostics?: Diagnostic[]; items?: unknown[] };
}
interface Editor {
  /** Its messages about a file, each with its line number, starting at 1. */
  open: (file: string) => Promise<string[]>;
}

const server = await npmPackage('yaml-language-server', '1.18.0');

async function startEditor(t: Test): Promise<Editor> {
  const program = path.join(server, 'bin/yaml-language-server');
  const child = spawn(process.execPath, [program, '--stdio'], { stdio: ['pipe', 'pipe', 'inherit'] });
  t.teardown(async () => {
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  });
  const send = (message: object): void => {
    const body = JSON.stringify({ jsonrpc: '2.0', ...message });
    child.stdin.write(`Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
  };
  const waiting = new Map<string, (found: Diagnostic[]) => void>();
  const initialized = new Promise<void>((resolve) => {
    void readMessages(child.stdout, ({ id, method, params }) => {
      if (method === undefined) resolve();
      // It requests settings; there are none.
      else if (id !== undefined) send({ id, result: params?.items?.map(() => null) ?? null });
      else if (method === 'textDocument/publishDiagnostics')
        waiting.get(params?.uri ?? '')?.(params?.diagnostics ?? []);
    });
  });
  const capabilities = { textDocument: { publishDiagnostics: {} } };
  send({ id: 1, method: 'initialize', params: { processId: process.pid, rootUri: null, capabilities } });
  await initialized;
  send({ method: 'initialized', params: {} });
  const settings = { yaml: { validate: true, schemaStore: { enable: false } } };
  send({ method: 'workspace/didChangeConfiguration', params: { settings } });
  return {
    async open(file) {
      const uri = pathToFileURL(path.resolve(file)).href;
      const diagnostics = new Promise<Diagnostic[]>((resolve) => waiting.set(uri, resolve));
      const textDocument = { uri, languageId: 'yaml', version: 1, text: readFileSync(file, 'utf8') };
      send({ method: 'textDocument/didOpen', params: { textDocument } });
      return (await diagnostics).map(({ message, range }) => `${range.start.line + 1}: ${message}`);
    },
  };
}

async function readMessages(stream: AsyncIterable<Buffer>, take: (message: Message) => void): Promise<void> {
  let rest = Buffer.alloc(0);
  for await (const chunk of stream) {
    rest = Buffer.concat([rest, chunk]);
    for (;;) {
      const end = rest.indexOf('\r\n\r\n');
      const length = Number(/Content-Length: (\d+)/i.exec(rest.subarray(0, end).toString())?.[1]);
      if (end === -1 || rest.length < end + 4 + length) break;
      take(JSON.parse(rest.subarray(end + 4, end + 4 + length).toString()) as Message);
      rest = rest.subarray(end + 4 + length);
    }
  }
}

t.test('an editor accepts the examples and the files from init', async (t) => {
  const editor = await startEditor(t);
  const place = t.testdir({});
  for (const file of ['examples/config/full.yml', 'examples/demo/config.yml', 'examples/compose/waybill.yml'])
    t.same(await editor.open(file), [], file);
  layOutSchema(place);
  for (const situation of ['directory', 'uploads', 's3', 'sftp', 'weather']) {
    const file = path.join(place, `${situation}.yml`);
    waybill(['init', situation, '-o', file], { cwd: place });
    writeFileSync(file, `${schemaLine}\n${readFileSync(file, 'utf8')}`);
    t.same(await editor.open(file), [], situation);
  }
});

t.test('it reports errors at their lines, in plain words', async (t) => {
  const editor = await startEditor(t);
  const place = t.testdir({});
  layOutSchema(place);
  const file = path.join(place, 'wrong.yml');
  writeFileSync(
    file,
    `${schemaLine}
server:
  http:
    upload_timeout: 30 minutes
    max_conections: 3
pipelines:
  - id: Maps
    source: { backend: ftp, path: ./source }
    destinations:
      - { id: web, backend: local, path: ./public }
`,
  );
  const diagnostics = await editor.open(file);
  t.match(at(4, diagnostics), /expected a duration: a whole number with a unit/);
  t.match(at(5, diagnostics), /max_conections is not allowed/);
  t.match(at(7, diagnostics), /expected an id of at most 64 lower-case letters/);
  t.match(at(8, diagnostics), /local|sftp|s3|http_upload/);
  t.same(
    diagnostics.filter((line) => !/^[4578]:/.test(line)),
    [],
    'and nothing else',
  );
  t.notMatch(diagnostics.join('\n'), /pattern|\^/, 'no regular expression');
});

/** As described in the configuration page. */
const schemaLine = '# yaml-language-server: $schema=./waybill.schema.json';

function layOutSchema(place: string): void {
  const { stdout } = waybill(['config', 'schema'], { cwd: place });
  writeFileSync(path.join(place, 'waybill.schema.json'), stdout);
}

function at(line: number, diagnostics: readonly string[]): string {
  return diagnostics.filter((each) => each.startsWith(`${line}:`)).join('\n');
}
