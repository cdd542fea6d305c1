import { readdirSync, readFileSync } from 'node:fs';
import t from 'tap';

/** Each of these is what this program made itself: HTML of a template, or style whose digest is known. */
const unescaped = [/^include\('/, /^page\.main$/, /^page\.style$/];

t.test('templates of pages write only generated markup without escaping', async (t) => {
  const files = readdirSync('templates', { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.ejs'),
  );
  t.ok(files.length >= 5);
  for (const file of files) {
    const raw = [...readFileSync(`templates/${file}`, 'utf8').matchAll(/<%-(.*?)%>/gs)];
    for (const [, code = ''] of raw)
      t.ok(
        unescaped.some((form) => form.test(code.trim())),
        `${file}: ${code}`,
      );
  }
});

t.test('no template has script, style or handlers in its markup', async (t) => {
  const files = readdirSync('templates', { recursive: true, encoding: 'utf8' }).filter(
    (name) => name.endsWith('.ejs') && !['index.ejs', 'scene-map.ejs'].some((own) => name.endsWith(own)),
  );
  for (const file of files)
    t.notMatch(
      readFileSync(`templates/${file}`, 'utf8'),
      /<style|\sstyle=|\son[a-z]+=|<script(?! type="module" src=)/i,
      file,
    );
});
