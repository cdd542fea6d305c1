import { execFile } from 'node:child_process';
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { ensureInstalled, pathOf } from './services/debian.ts';

/** Checks the manual pages with a formatter. `generated.test.ts` compares them with the help. */

const pages = readdirSync('man').map((name) => path.join('man', name));
const run = promisify(execFile);

t.test('every page passes the linter, and describes its command', async (t) => {
  await ensureInstalled('mandoc');
  t.ok(pages.length > 15, `${pages.length} pages`);
  for (const page of pages) {
    // The date is omitted on purpose, and some lines of the help are wider than a page.
    const linted = await run(pathOf('mandoc') ?? '', ['-T', 'lint', '-W', 'warning', page]).catch(
      (error: unknown) => error as { stdout: string },
    );
    const complaints = linted.stdout
      .split('\n')
      .filter((line) => line !== '' && !line.includes('missing date'));
    t.same(complaints, [], page);
    const { stdout } = await run(pathOf('mandoc') ?? '', ['-T', 'ascii', page]);
    const text = stdout.replaceAll(/.\u0008/g, '');
    t.match(text, /^NAME\n +waybill[\w-]* - \w/m, page);
    for (const heading of ['SYNOPSIS', 'EXIT STATUS', 'SEE ALSO'])
      t.match(text, new RegExp(`^${heading}$`, 'm'));
  }
});

t.test('a page has every option of its command, and details', async (t) => {
  await ensureInstalled('mandoc');
  const { stdout } = await run(pathOf('mandoc') ?? '', ['-T', 'ascii', 'man/waybill-run.1']);
  const text = stdout.replaceAll(/.\u0008/g, '');
  for (const word of ['-c, --config <file>', '--dry-run', '--force', 'One of text, json.', 'Default: text.'])
    t.ok(text.includes(word), word);
});
