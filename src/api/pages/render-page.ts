import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import ejs from 'ejs';
import { assetNamed } from './assets.ts';
import type { Site } from './site.ts';

const root = fileURLToPath(new URL('../../../templates', import.meta.url));
const compiled = new Map<string, ejs.TemplateFunction>();

/**
 * Renders a template with a view. The template sees only the view, as `page`. Output with `<%=` is escaped.
 * `test/pages/templates.test.ts` allows unescaped output only for including another template: `<%-
 * include('parts/name', {…}) %>`, read from `templates/pages`.
 *
 * @param name path relative to `templates`, without its extension: `console/run`
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

/** A page: its title, its content, and its additions to the shared layout. */
export interface Page {
  /** The document title, without the product name. The template has its own heading. */
  title: string;
  /** The template of `main`: a path relative to `templates`, without its extension, such as `console/run`. */
  template: string;
  /** The template's `page` variable. The base path is added to it as `base`. */
  view: Readonly<Record<string, unknown>>;
  /** The page's navigation entry. */
  nav?: string;
  /** Breadcrumbs. The last one is this page and has no `href`. */
  crumbs?: readonly Crumb[];
  /** Additional stylesheets, such as `console` for `templates/styles/console.css`. */
  styles?: readonly string[];
  /** Scripts, such as `console` for `src/browser/console.ts`. The page must be usable without them. */
  scripts?: readonly string[];
  /** Uses the full window width, for wide tables. */
  isWide?: boolean;
  /** The signed-in user. The header then has a form that signs out. */
  account?: Account;
  /**
   * When the displayed values were read, in RFC 3339 (UTC). Adds the `times` script, which also shows every
   * `<time>` in the reader's time zone.
   */
  madeAt?: string;
  /** Whether the page will change soon. If so, browsers without JavaScript reload it every few seconds. */
  isMoving?: boolean;
}

export interface Crumb {
  label: string;
  /** The full path, as used in a link. */
  href?: string;
}

interface Account {
  name: string;
  /** The full path of the page about the user. */
  href: string;
  /** The full path that accepts a `POST` to sign out, with `csrf` in its form. */
  signOut: string;
  csrf: string;
}

/** Renders a complete document in the shared layout. */
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

/** Returns the path of an asset such as `console.css` or `console.js`. Throws if it does not exist. */
function assetHref({ basePath }: Pick<Site, 'basePath'>, name: string): string {
  return `${basePath}assets/${assetNamed(name).fileName}`;
}
