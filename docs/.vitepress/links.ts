import { cpSync, mkdirSync, statSync } from 'node:fs';
import path from 'node:path';
import type { MarkdownRenderer } from 'vitepress';
import { pageOf, root } from './pages.ts';

const linkedFiles = new Set<string>();

/**
 * Keeps inline code as it is. Rewrites relative links from the places of the files in the project, which code
 * forges show, to their places in the site. Files that are not pages become downloads. Throws if a linked
 * file does not exist.
 */
export function siteLinks(md: MarkdownRenderer): void {
  md.core.ruler.push('site-links', ({ tokens, env }) => {
    const { realPath, path: ownPath } = env as { realPath?: string; path: string };
    const source = path.relative(root, realPath ?? ownPath);
    for (const token of tokens.flatMap(({ children }) => children ?? [])) {
      // The site generator would run `{{…}}` as code of the page.
      if (token.type === 'code_inline') token.attrSet('v-pre', '');
      const href = token.type === 'link_open' ? token.attrGet('href') : null;
      if (href === null || /^([a-z]+:|#|\/)/.test(href)) continue;
      token.attrSet('href', siteLink(source, href));
    }
  });
}

/** The anchor of a heading, as code forges make it. */
export function anchorOf(title: string): string {
  return title
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(' ', '-');
}

function siteLink(source: string, href: string): string {
  const [target = '', heading] = href.split('#');
  const file = path.posix.join(path.posix.dirname(source), decodeURI(target));
  if (!statSync(path.join(root, file), { throwIfNoEntry: false })?.isFile())
    throw new Error(`${source} links to ${href}, which is not a file`);
  const page = file.endsWith('.md') ? pageOf(file) : undefined;
  if (page !== undefined) return heading === undefined ? `/${page}` : `/${page}#${heading}`;
  linkedFiles.add(file);
  return `/${downloadOf(file)}`;
}

/** Files without an extension get one, so that web servers send them as text. */
function downloadOf(file: string): string {
  return `files/${/\.[a-z]+$/.test(file) ? file : `${file}.txt`}`;
}

/** Copies the files that pages link to into the site. Called after the pages are built. */
export function copyLinkedFiles(site: string): void {
  for (const file of linkedFiles) {
    const copy = path.join(site, downloadOf(file));
    mkdirSync(path.dirname(copy), { recursive: true });
    cpSync(path.join(root, file), copy);
  }
}
