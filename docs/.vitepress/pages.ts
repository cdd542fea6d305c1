import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { DefaultTheme } from 'vitepress';

/** The root of the project. Links in Markdown files lead anywhere below it, also out of `docs/`. */
export const root = path.join(import.meta.dirname, '../..');

/** Pages of the site that lie outside `docs/`, and their places in it. */
const outside: Readonly<Record<string, string>> = {
  'README.md': 'overview.md',
  'ARCHITECTURE.md': 'architecture.md',
  'CHANGELOG.md': 'changelog.md',
  'CONTRIBUTING.md': 'contributing.md',
  'SECURITY.md': 'security.md',
  'examples/ci/README.md': 'ci.md',
};

/**
 * Returns the place of a Markdown file in the site; undefined if the site does not contain it.
 *
 * @param file relative to the root of the project
 */
export function pageOf(file: string): string | undefined {
  if (!file.startsWith('docs/')) return outside[file];
  return file.slice('docs/'.length).replace(/(^|\/)README\.md$/, '$1index.md');
}

/** The sidebar: one group for each heading of `docs/README.md` that lists pages. */
export function sidebar(): DefaultTheme.SidebarItem[] {
  const [, ...groups] = readFileSync(path.join(root, 'docs/README.md'), 'utf8').split(/^## /m);
  return groups
    .filter((group) => !group.startsWith('Files'))
    .map((group) => ({
      text: group.split('\n', 1)[0] ?? '',
      collapsed: group.startsWith('For maintainers'),
      items: [...group.matchAll(/^- \[([^\]]+)\]\(([^)#]+)(#[^)]+)?\)/gm)].map(
        ([, text = '', file = '', heading = '']) => ({ text, link: linkTo(file) + heading }),
      ),
    }));
}

function linkTo(file: string): string {
  const page = pageOf(path.posix.join('docs', file));
  if (page === undefined) throw new Error(`docs/README.md lists ${file}, which is not a page of the site`);
  return `/${page.replace(/(^|\/)index\.md$/, '$1').replace(/\.md$/, '')}`;
}
