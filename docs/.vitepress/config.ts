import { defineConfig } from 'vitepress';
import { anchorOf, copyLinkedFiles, siteLinks } from './links.ts';
import { pageOf, sidebar } from './pages.ts';

/**
 * The documentation as a site. `npm run docs` writes it to `site/`; `npm run docs -- --base /handbook/` sets
 * its base path. Addresses end with `.html`, so that any web server or bucket can serve them.
 */
export default defineConfig({
  title: 'waybill',
  description: 'Publishes bundles of files to local, SFTP and S3 destinations.',
  lang: 'en',
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
  buildEnd: ({ outDir }) => {
    copyLinkedFiles(outDir);
  },
  themeConfig: {
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
