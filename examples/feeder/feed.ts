/**
 * Loads files of the National Weather Service and the Storm Prediction Center into a weather database:
 * `feed.ts (--url URL | --url-env NAME | --directory DIR) [--schema NAME] PATH…`, where `-` is standard
 * input.
 */
import { readdir, readFile, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { text as readAll } from 'node:stream/consumers';
import { parseArgs } from 'node:util';
import { load } from './load.ts';
import { recognise } from './recognise.ts';
import { NothingToLoad } from './rows.ts';
import { createTables, openDirectory, openServer } from './targets.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    url: { type: 'string' },
    'url-env': { type: 'string' },
    directory: { type: 'string' },
    schema: { type: 'string', default: 'weather' },
    name: { type: 'string', default: 'stdin' },
  },
});
const url = values.url ?? (values['url-env'] === undefined ? undefined : process.env[values['url-env']]);
if ((url === undefined) === (values.directory === undefined) || positionals.length === 0) {
  console.error(
    'usage: feed.ts (--url URL | --url-env NAME | --directory DIR) [--schema NAME] [--name FILE] PATH… | -',
  );
  process.exit(2);
}

const target =
  url === undefined
    ? await openDirectory(values.directory ?? '', values.schema)
    : await openServer(url, values.schema);
try {
  await createTables(target, values.schema);
  for (const path of positionals)
    for await (const { name, text } of filesOf(path)) {
      try {
        const records = recognise(text, name);
        await load(target, records);
        console.log(`${name}: ${[...new Set(records.map(({ family }) => family))].join(', ')}`);
      } catch (error) {
        if (!(error instanceof NothingToLoad) && !(error instanceof SyntaxError)) throw error;
        console.error(`${name}: nothing loaded, ${error.message}`);
      }
    }
} finally {
  await target.close();
}

async function* filesOf(path: string): AsyncGenerator<{ name: string; text: string }> {
  if (path === '-') {
    yield { name: values.name, text: await readAll(process.stdin) };
    return;
  }
  const isDirectory = (await stat(path)).isDirectory();
  const names = isDirectory ? await readdir(path, { recursive: true }) : [''];
  for (const name of names.sort()) {
    const file = join(path, name);
    if ((await stat(file)).isFile() && !file.endsWith('.md'))
      yield { name: basename(file), text: await readFile(file, 'utf8') };
  }
}
