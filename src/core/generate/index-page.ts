import { readFile } from 'node:fs/promises';
import ejs from 'ejs';
import { compareCodeUnits, type RelativePath } from '../paths.ts';
import type { SourceBundle } from '../bundle/source-bundle.ts';
import { digestInputs, keptBytes, type Generator, type GeneratorInput } from './generator.ts';

const templateFile = new URL('../../../templates/pages/index.ejs', import.meta.url);
let template: Promise<string> | undefined;

/**
 * `index.html`: what the bundle holds, on one page that needs nothing else. Every text in it is escaped by
 * the template.
 */
export const indexGenerator: Generator = {
  name: 'index',
  version: 1,
  switchedBy: 'index',
  describe: async (input) => {
    template ??= readFile(templateFile, 'utf8');
    const source = await template;
    const page = pageOf(input);
    return [
      {
        path: 'index.html' as RelativePath,
        kind: 'index',
        contentType: 'text/html; charset=utf-8',
        inputs: digestInputs(source, page),
        open: keptBytes(() => ejs.render(source, page, { strict: true, localsName: 'page' })),
      },
    ];
  },
};

interface Page {
  title: string;
  created: string;
  total: string;
  files: Row[];
  downloads: Row[];
}

interface Row {
  href: string;
  path: string;
  kind: string;
  size: string;
  digest: string;
}

function pageOf({ bundle, siblings }: GeneratorInput): Page {
  const files = [...bundle.files].sort((a, b) => compareCodeUnits(a.path, b.path));
  const bytes = files.reduce((sum, { size }) => sum + size, 0);
  const downloads = siblings.map(row);
  return {
    title: titleOf(bundle),
    created: bundle.created,
    total: `${files.length} ${files.length === 1 ? 'file' : 'files'}, ${readableSize(bytes)}`,
    files: files.map(row),
    downloads,
  };
}

function row({
  path,
  kind,
  size,
  digest,
}: {
  path: string;
  kind: string;
  size: number;
  digest: string;
}): Row {
  // With `./` no path is ever taken for a scheme.
  const href = `./${path.split('/').map(encodeURIComponent).join('/')}`;
  return { href, path, kind, size: readableSize(size), digest };
}

function titleOf({ name, path }: SourceBundle): string {
  return name ?? (path === '.' ? 'Bundle' : path);
}

const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

function readableSize(bytes: number): string {
  if (bytes === 1) return '1 byte';
  let unit = 0;
  let value = bytes;
  for (; value >= 1024 && unit < units.length - 1; unit += 1) value /= 1024;
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit] ?? ''}`;
}
