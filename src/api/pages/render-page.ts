import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import ejs from 'ejs';
import type { Account } from '../http/request/request-context.ts';
import { assetNamed } from './assets.ts';
import type { Site } from './site.ts';

const root = fileURLToPath(new URL('../../../templates', import.meta.url));
const compiled = new Map<string, ejs.TemplateFunction>();

/**
 * Renders a template, which can only access the view, as `page`. Everything printed with `<%=` is escaped.
 * Unescaped output is only for including other templates from `templates/pages`, as in `<%-
 * include('parts/name', {…}) %>`; `test/pages/templates.test.ts` checks this.
 *
 * @param name path relative to `templates`, without its extension: `console/run`
 */
function renderTemplate(name: string, view: Readonly<Record<string, unknown>>): string {
  let template = compiled.get(name);
  if (template === undefined) {
    const filename = path.join(root, `${name}.ejs`);
    template = ejs.compile(readFileSync(filename, 'utf8'), {
      filename,
      views: [path.join(root, 'pages')],
      cache: true,
      strict: true,
      localsName: 'page',
      rmWhitespace: true,
    });
    compiled.set(name, template);
  }
  return template(view);
}

/** The content of a page, and what it adds to the site's layout. */
export interface Page {
  /** The document title, without the product name. The heading is part of the template. */
  title: string;
  /**
   * The template for the `main` element, relative to `templates` and without the extension: `console/run`.
   */
  template: string;
  /** The data that the template can access as `page`. The base path is added to it as `base`. */
  view: Readonly<Record<string, unknown>>;
  /** The navigation entry to highlight. `daemon` and `account` are next to the login. */
  nav?: string;
  /** The breadcrumbs, ending with this page, which has no `href`. */
  crumbs?: readonly Crumb[];
  /** Additional stylesheets: `console` loads `templates/styles/console.css`. */
  styles?: readonly string[];
  /** Scripts: `console` loads `src/browser/console.ts`. The page has to work without them. */
  scripts?: readonly string[];
  /** Use the full width of the window, for wide tables. */
  isWide?: boolean;
  /** The logged-in visitor. If set, the header contains a log out form. */
  account?: Account;
  /** The path of the login page. If set, the header of a page without `account` links to it. */
  login?: string;
  /**
   * When the data on the page was read, in RFC 3339 (UTC). If set, the page loads the `times` script, which
   * also converts every `<time>` to the reader's time zone.
   */
  madeAt?: string;
  /** True if the page is about to change. Browsers without JavaScript then reload it every few seconds. */
  isMoving?: boolean;
}

export interface Crumb {
  label: string;
  /** The full path, ready to be used in a link. */
  href?: string;
}

/** Renders a complete HTML document in the site's layout. */
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
    current: nav ?? null,
    crumbs,
    styles: hrefs(['waybill', ...styles], 'css'),
    scripts: hrefs(page.madeAt === undefined ? scripts : ['times', ...scripts], 'js'),
    isWide: page.isWide ?? false,
    account: page.account ?? null,
    login: page.login ?? null,
    madeAt: page.madeAt === undefined ? null : { iso: page.madeAt, text: madeText(page.madeAt) },
    isMoving: page.isMoving ?? false,
    main: renderTemplate(template, { ...view, base: site.basePath }),
  });
}

const madeFormat = new Intl.DateTimeFormat('en-GB', {
  dateStyle: 'medium',
  timeStyle: 'medium',
  timeZone: 'UTC',
});

function madeText(iso: string): string {
  return `${madeFormat.format(new Date(iso))} UTC`;
}

/** Returns the path of an asset such as `console.css`. Throws an error if it does not exist. */
function assetHref({ basePath }: Pick<Site, 'basePath'>, name: string): string {
  return `${basePath}assets/${assetNamed(name).fileName}`;
}
