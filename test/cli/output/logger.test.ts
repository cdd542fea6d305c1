import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import t from 'tap';
import { escapeInvisible } from '../../../src/cli/output/logger.ts';
import { ensureInstalled } from '../../services/debian.ts';

const hostile = 'a\u009b31mb\u202ec\u2066d\u2028e\u007ff\u061cg';
const escaped = String.raw`a\u009b31mb\u202ec\u2066d\u2028e\u007ff\u061cg`;

t.test('an escaped line is the same JSON', async (t) => {
  const line = JSON.stringify({ reason: hostile });
  t.equal(escapeInvisible(line), `{"reason":"${escaped}"}`);
  t.same(JSON.parse(escapeInvisible(line)), { reason: hostile });
  t.equal(escapeInvisible('grüße 🗺 \u001b[31m'), 'grüße 🗺 \u001b[31m');
});

t.test('no log line has control characters for a terminal, as JSON or as text', async (t) => {
  await ensureInstalled('script');
  const at = (file: string): string => JSON.stringify(pathToFileURL(path.resolve('src', file)).href);
  const program = `
    import { makeLogger } from ${at('cli/output/logger.ts')};
    import { newRedaction } from ${at('core/lib/log.ts')};
    const log = await makeLogger({ verbose: false, color: false, pretty: true, redaction: newRedaction() });
    log.info({ reason: process.env.HOSTILE }, process.env.HOSTILE);
  `;
  const env = { ...process.env, HOSTILE: hostile, PROGRAM: program };
  const node = `"${process.execPath}" --import=tsx --input-type=module -e "$PROGRAM"`;
  const json = spawnSync('sh', ['-c', node], { env, encoding: 'utf8' }).stderr;
  const pretty = spawnSync('script', ['-qec', node, '/dev/null'], { env, encoding: 'utf8' }).stdout;
  t.equal(json.split(escaped).length, 3, 'JSON: message and field are escaped');
  t.match(pretty, escaped, 'text: the field is escaped; pino-pretty strips part of the message');
  for (const output of [json, pretty]) t.notMatch(output, /[\u007f-\u009f\u061c\u202e\u2066\u2028]/);
});
