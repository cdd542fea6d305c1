import { defineConfig } from 'vitepress';
import { anchorOf, copyLinkedFiles, siteLinks } from './links.ts';
import { pageOf, sidebar } from './pages.ts';

/** The icon of the daemon's pages (`templates/pages/shell.ejs`). */
const icon =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24'%3E%3Crect width='24' height='24' rx='5' fill='%232450c4'/%3E%3Cpath d='M5 8l3 9 4-7 4 7 3-9' fill='none' stroke='%23fff' stroke-width='2.2' stroke-linejoin='round' stroke-linecap='round'/%3E%3C/svg%3E";

/**
 * The documentation as a site. `npm run docs` writes it to `site/`; `npm run docs -- --base /handbook/` sets
 * its base path. Addresses end with `.html`, so that any web server or bucket can serve them.
 */
export default defineConfig({
  title: 'waybill',
  description: 'Publishes bundles of files to local, SFTP and S3 destinations.',
  lang: 'en',
  head: [['link', { rel: 'icon', href: icon }]],
  srcDir: '..',
  srcExclude: [
    '{bench,dist,node_modules,scripts,site,src,templates,test}/**',
    '**/.*/**',
    'examples/!(ci)/**',
  ],
  rewrites: (file) => pageOf(file) ?? file,
  outDir: '../site',
  cacheDir: '../node_modules/.cache/vitepress',
  markdown: {
    config: siteLinks,
    anchor: { slugify: anchorOf },
    linkify: false,
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    languageAlias: { caddyfile: 'nginx', promql: 'sql' },
  },
  transformPageData: (page) => {
    if (page.relativePath === 'index.md') page.frontmatter['pageClass'] = 'start';
  },
  buildEnd: ({ outDir }) => {
    copyLinkedFiles(outDir);
  },
  themeConfig: {
    logo: icon,
    sidebar: sidebar(),
    outline: [2, 3],
    search: { provider: 'local' },
    nav: [
      { text: 'Install', link: '/installation' },
      { text: 'Configuration', link: '/configuration' },
      { text: 'Command line', link: '/cli' },
      { text: 'HTTP API', link: '/http-api' },
    ],
  },
});
