import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import ejs from 'ejs';

const root = fileURLToPath(new URL('../../../templates', import.meta.url));
const compiled = new Map<string, ejs.TemplateFunction>();

/**
 * The text that a template makes of a view. The template knows the view as `page` and nothing else; what it
 * writes with `<%=` is escaped, and `test/pages/templates.test.ts` lets none write anything otherwise but
 * another template: `<%- include('parts/name', {…}) %>`, which is looked for in `templates/pages`.
 *
 * @param name below `templates`, without its extension: `console/run`
 */
export function renderTemplate(name: string, view: Readonly<Record<string, unknown>>): string {
  let template = compiled.get(name);
  if (template === undefined) {
    const filename = path.join(root, `${name}.ejs`);
    template = ejs.compile(readFileSync(filename, 'utf8'), {
      ...{ filename, views: [path.join(root, 'pages')], cache: true },
      ...{ strict: true, localsName: 'page', rmWhitespace: true },
    });
    compiled.set(name, template);
  }
  return template(view);
}
