import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import ejs from 'ejs';
import { assetNamed } from './assets.ts';
import type { Site } from './site.ts';

const root = fileURLToPath(new URL('../../../templates', import.meta.url));
const compiled = new Map<string, ejs.TemplateFunction>();

/**
 * The text that a template makes of a view. The template knows the view as `page` and nothing else; what it
 * writes with `<%=` is escaped, and `test/pages/templates.test.ts` lets none write anything otherwise but
 * another template: `<%- include('parts/name', {…}) %>`, which is looked for in `templates/pages`.
 *
 * @param name below `templates`, without its extension: `console/run`
 */
function renderTemplate(name: string, view: Readonly<Record<string, unknown>>): string {
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

/** One page: what it is called, what is in it, and what it needs beside the kit. */
export interface Page {
  /** Of the document, without the name of the product; the template has the heading itself. */
  title: string;
  /** Makes what is in `main`; below `templates`, without its extension: `console/run`. */
  template: string;
  /** What the template knows as `page`, with `base`, the base path, added to it. */
  view: Readonly<Record<string, unknown>>;
  /** The entry of the navigation that the page belongs to. */
  nav?: string;
  /** The way to this page, this page last and without `href`. */
  crumbs?: readonly Crumb[];
  /** Stylesheets beside that of the kit: `console` for `templates/styles/console.css`. */
  styles?: readonly string[];
  /** Scripts: `console` for `src/browser/console.ts`. The page has to be of use without them. */
  scripts?: readonly string[];
  /** As wide as the window, for what has many columns. */
  isWide?: boolean;
  /** The signed-in user; the head then has a form that signs out. */
  account?: Account;
  /**
   * When the values that it shows were read; RFC 3339 in UTC. With it comes the script `times`, which tells
   * every `<time>` in the reader's own time zone, too.
   */
  madeAt?: string;
  /** Whether it changes by itself soon: without script it is loaded again every few seconds. */
  isMoving?: boolean;
}

export interface Crumb {
  label: string;
  /** The whole path, as it goes into a link. */
  href?: string;
}

interface Account {
  name: string;
  /** The whole path that `POST` signs out at, with `csrf` in its form. */
  signOut: string;
  csrf: string;
}

/** The whole document, in the frame that all pages share. */
export function renderPage(site: Site, page: Page): string {
  const { title, template, view, nav, crumbs = [], styles = [], scripts = [] } = page;
  const hrefs = (names: readonly string[], extension: string): string[] =>
    names.map((name) => assetHref(site, `${name}.${extension}`));
  return renderTemplate('pages/shell', {
    title,
    base: site.basePath,
    version: site.version,
    nav: site.nav.map(({ id, label, path }) => ({
      label,
      href: `${site.basePath}${path}`,
      isCurrent: id === nav,
    })),
    crumbs,
    styles: hrefs(['waybill', ...styles], 'css'),
    scripts: hrefs(page.madeAt === undefined ? scripts : ['times', ...scripts], 'js'),
    isWide: page.isWide ?? false,
    account: page.account ?? null,
    madeAt: page.madeAt ?? null,
    isMoving: page.isMoving ?? false,
    main: renderTemplate(template, { ...view, base: site.basePath }),
  });
}

/** The path of an asset: of `console.css` or `console.js`. Throws if there is none. */
function assetHref({ basePath }: Pick<Site, 'basePath'>, name: string): string {
  return `${basePath}assets/${assetNamed(name).fileName}`;
}
