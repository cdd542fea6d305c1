import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import ejs from 'ejs';
import type { SourceBundle } from '../bundle/source-bundle.ts';
import { instantForPeople } from '../lib/instant.ts';
import { compareCodeUnits } from '../lib/paths.ts';
import { formatSize } from '../lib/settings/sizes-and-durations.ts';
import {
  checksumsName,
  digestInputs,
  type Generator,
  type GeneratorInput,
  indexName,
  lazyBytes,
} from './generator.ts';

const templates = new URL('../../../templates/', import.meta.url);
let source: Promise<Source> | undefined;

/** The page's templates and styles. */
interface Source {
  template: string;
  style: string;
}

async function readSource(): Promise<Source> {
  const [template, ...styles] = await Promise.all(
    ['pages/index.ejs', 'styles/tokens.css', 'styles/base.css', 'pages/index.css'].map((name) =>
      readFile(new URL(name, templates), 'utf8'),
    ),
  );
  return { template: template ?? '', style: styles.join('') };
}

/**
 * Makes a page, `index.html`, that lists what is in the bundle. The only things it loads are pictures from
 * the bundle. The template escapes all text, and the content security policy allows the style of the page
 * itself, and no scripts.
 */
export const indexGenerator: Generator = {
  name: 'index',
  version: 6,
  setting: 'index',
  describe: async (input) => {
    source ??= readSource();
    const { template, style } = await source;
    const page = pageOf(input);
    const styleHash = createHash('sha256').update(style).digest('base64');
    return [
      {
        path: indexName,
        kind: 'index',
        contentType: 'text/html; charset=utf-8',
        inputs: digestInputs(template, style, page),
        open: lazyBytes(() =>
          ejs.render(template, { ...page, style, styleHash }, { strict: true, localsName: 'page' }),
        ),
      },
    ];
  },
};

interface Page {
  title: string;
  created: string;
  /** `created` as people would write it. */
  createdText: string;
  total: string;
  /** The relative URL of the list of bundles; null if there is none. */
  rootIndexHref: string | null;
  folders: Folder[];
  /** The name of the file for `sha256sum`; null if there is none. */
  checksums: string | null;
  sceneMaps: Row[];
  archives: Row[];
  /** The first few pictures that a browser can display and that are not too large to have on the page. */
  pictures: Row[];
}

interface Row {
  href: string;
  path: string;
  /** The path in parts: `maps/`, which can be empty, and `session-42.json`. */
  folder: string;
  name: string;
  /** Empty if it is an ordinary file. */
  kind: string;
  size: string;
  digest: string;
}

interface Folder {
  /** Empty for files outside of folders. */
  folder: string;
  /** The number of files, if all are among the pictures; otherwise 0. */
  pictured: number;
  /** Empty if all are among the pictures. */
  files: Row[];
}

const picture = /\.(avif|gif|jpe?g|png|svg|webp)$/i;
const maxPictureBytes = 8 * 1024 * 1024;
const maxPictures = 24;

function pageOf({ bundle, siblings, hasChecksums, rootIndexHref }: GeneratorInput): Page {
  const files = [...bundle.files].sort((a, b) => compareCodeUnits(a.path, b.path));
  // The files of a folder are together, and those outside of folders are first.
  const rows = files.map(row).sort((a, b) => compareCodeUnits(a.folder, b.folder));
  const bytes = files.reduce((sum, { size }) => sum + size, 0);
  const shown = files.filter(({ path, size }) => picture.test(path) && size <= maxPictureBytes);
  const pictures = shown.slice(0, maxPictures).map(row);
  const made = (kind: string): Row[] => siblings.filter((one) => one.kind === kind).map(row);
  const sceneMaps = made('scene_map_page');
  // The buttons already name the scene maps.
  if (sceneMaps.length > 0) for (const one of rows) if (one.kind === 'scene map') one.kind = '';
  return {
    title: titleOf(bundle),
    created: bundle.created,
    createdText: instantForPeople(bundle.created),
    total: `${files.length} ${files.length === 1 ? 'file' : 'files'}, ${formatSize(bytes)}`,
    rootIndexHref,
    folders: inFolders(rows, new Set(pictures.map(({ path }) => path))),
    checksums: hasChecksums ? checksumsName : null,
    sceneMaps,
    archives: made('archive'),
    pictures,
  };
}

function inFolders(rows: readonly Row[], pictures: ReadonlySet<string>): Folder[] {
  const folders = new Map<string, Row[]>();
  for (const one of rows)
    if (folders.get(one.folder)?.push(one) === undefined) folders.set(one.folder, [one]);
  return [...folders].map(([folder, files]) => {
    const isPictured = folder !== '' && files.every(({ path }) => pictures.has(path));
    return isPictured ? { folder, pictured: files.length, files: [] } : { folder, pictured: 0, files };
  });
}

interface Listed {
  path: string;
  kind: string;
  size: number;
  digest: string;
}

function row({ path, kind, size, digest }: Listed): Row {
  // Without `./`, a path with a colon in it would look like a URL with a scheme.
  const href = `./${path.split('/').map(encodeURIComponent).join('/')}`;
  const shownKind = kind === 'file' ? '' : kind.replaceAll('_', ' ');
  const nameStart = path.lastIndexOf('/') + 1;
  return {
    href,
    path,
    folder: path.slice(0, nameStart),
    name: path.slice(nameStart),
    kind: shownKind,
    size: formatSize(size),
    digest: digest.replace(/^sha256:/, ''),
  };
}

function titleOf({ name, path }: SourceBundle): string {
  return name ?? (path === '.' ? 'Bundle' : path);
}
