import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { Test } from 'tap';
import { sampleOf } from '../../../support/sampling.ts';
import type { MakeWorld, WeatherWorld } from '../weather-worlds.ts';
import { absent, inCsv, inGeoJson, inJson, inXml, type Lookup, spaced, wordsOf } from './answers.ts';
import { corpus, type CorpusCase, corpusDirectory, type CorpusFile } from './cases.ts';

const formats = ['json', 'xml', 'text', 'geojson', 'csv', 'page'] as const;
type Format = (typeof formats)[number];
/** The number of correct expectations of a format, and their total. */
type Score = Partial<Record<Format, { right: number; of: number }>>;
interface Scored {
  file: CorpusFile;
  cases: { one: CorpusCase; score: Score }[];
}

/** Runs every case through feeder, reader and all formats, and compares the table of the README. */
export async function corpusSuite(t: Test, world: MakeWorld): Promise<void> {
  const scored = await runCorpus(t, world, ({ cases }) => cases);
  const made = readme(scored);
  const kept = readFileSync(join(corpusDirectory, 'README.md'), 'utf8');
  if (made !== kept) {
    mkdirSync('.tap/weather-corpus', { recursive: true });
    writeFileSync('.tap/weather-corpus/README.md', made);
  }
  t.equal(made, kept, 'README.md has the results, or else: copy .tap/weather-corpus/README.md');
}

/** Runs a third of the cases of each file. Used for the second database, which runs the same queries. */
export async function corpusSample(t: Test, world: MakeWorld): Promise<void> {
  await runCorpus(t, world, ({ name, cases }) => sampleOf(cases, Math.ceil(cases.length / 3), name));
}

async function runCorpus(
  t: Test,
  world: MakeWorld,
  casesOf: (file: CorpusFile) => readonly CorpusCase[],
): Promise<Scored[]> {
  const scored: Scored[] = [];
  for (const file of corpus()) {
    const cases: Scored['cases'] = [];
    await t.test(file.name, async (t) => {
      for (const one of casesOf(file))
        await t.test(one.odd, async (t) => {
          cases.push({ one, score: await runCase(t, { one, file }, await world(t, one.documents, one.now)) });
        });
    });
    scored.push({ file, cases });
  }
  return scored;
}

/** Compares all answers with the expected ones, and fails once with all differences. */
async function runCase(
  t: Test,
  { one, file }: { one: CorpusCase; file: CorpusFile },
  { fed, get }: WeatherWorld,
): Promise<Score> {
  const score: Score = {};
  const wrong: string[] = [];
  const count = (format: Format, isRight: boolean, what: string): void => {
    const found = (score[format] ??= { right: 0, of: 0 });
    found.of += 1;
    if (isRight) found.right += 1;
    else wrong.push(`${format}: ${what}`);
  };
  wrong.push(...reportsOf(one, fed.at(-1)));
  const answer = async (format: string): Promise<string> =>
    get(`${one.ask}${one.ask.includes('?') ? '&' : '?'}format=${format}`);
  const lookups: Partial<Record<Format, Lookup>> = {
    json: inJson(await answer('json')),
    xml: inXml(await answer('xml')),
    ...(file.formats.includes('geojson') ? { geojson: inGeoJson(await answer('geojson'), one.items) } : {}),
    ...(file.formats.includes('csv') ? { csv: inCsv(await answer('csv'), one.rows) } : {}),
  };
  for (const [format, lookup] of Object.entries(lookups) as [Format, Lookup][])
    for (const [path, expected] of Object.entries(one.data)) {
      if (format === 'csv' && path.startsWith('meta.')) continue;
      const found = lookup(path);
      // XML and CSV have only texts.
      const isText = (format === 'xml' || format === 'csv') && expected !== null;
      const isRight = isDeepStrictEqual(found, isText ? asText(expected) : expected);
      const what = `${path} is ${JSON.stringify(found)}, expected ${JSON.stringify(expected)}`;
      if (found !== absent) count(format, isRight, what);
    }
  const said = { text: spaced(await answer('text')), page: wordsOf(await get(one.page)) };
  for (const [format, expected] of [['text', one.text] as const, ['page', one.words] as const])
    for (const words of expected) {
      const isRight = words.startsWith('!')
        ? !said[format].includes(spaced(words.slice(1)))
        : said[format].includes(spaced(words));
      count(format, isRight, `${words}, in: ${said[format].slice(0, 3000)}`);
    }
  const expected: Format[] = ['json', 'xml', 'text', 'page', ...(file.formats as Format[])];
  wrong.push(...expected.flatMap((format) => (score[format] === undefined ? [`nothing of ${format}`] : [])));
  t.same(wrong, [], one.right);
  return score;
}

function asText(expected: unknown): string {
  return typeof expected === 'string' ? expected : JSON.stringify(expected);
}

/** Differences between the actual and the expected report about the last document. */
function reportsOf({ outcome, noted }: CorpusCase, last: WeatherWorld['fed'][number] | undefined): string[] {
  const reports = [...(last?.leftOut ?? []), ...(last?.reason === null ? [] : [last?.reason ?? ''])];
  const isNoted =
    reports.length === noted.length &&
    noted.every((pattern, at) => new RegExp(pattern).test(reports[at] ?? ''));
  return last?.outcome === outcome && isNoted ? [] : [`feeder: ${last?.outcome}: ${reports.join(' | ')}`];
}

function readme(scored: readonly Scored[]): string {
  const all = scored.flatMap(({ cases }) => cases);
  const total = (of: 'right' | 'of'): number =>
    all.reduce((sum, { score }) => sum + Object.values(score).reduce((part, one) => part + one[of], 0), 0);
  const wrong = total('of') - total('right');
  const cell = (text: unknown): string => String(text).replaceAll('|', '\\|');
  const tables = scored.map(({ file, cases }) => {
    const rows = cases.map(({ one, score }) => {
      const results = formats.map((format) => {
        const found = score[format];
        return found === undefined ? '' : `${found.right}/${found.of}`;
      });
      return `| ${[cell(one.odd), cell(one.who), cell(one.right), ...results].join(' | ')} |`;
    });
    const head = '| oddity | who publishes it | what is right | JSON | XML | text | GeoJSON | CSV | page |';
    return `## ${file.kind}\n\n\`${file.name}.yaml\`, ${cases.length} cases\n\n${head}\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n${rows.join('\n')}\n`;
  });
  return `${introduction}\n${all.length} oddities, ${total('of')} expectations, ${wrong} wrong on either database.\n\n${tables.join('\n')}`;
}

const introduction = `# Corpus of weather oddities

Each case is a patch of a recorded sample (\`test/fixtures/weather\`) and the values that are right, written by
hand from the standards: NWSI 10-1703 (VTEC), NWSI 10-1702 (UGC), CAP 1.2, RFC 7946, FMH-1 (METAR), and the
OpenAPI description of api.weather.gov. \`test/weather/api/weather-corpus-*.test.ts\` feed each case and compare the
answers in every format with these values, on an embedded database and on a server. A cell counts the
expectations that hold: right/all. An empty cell is a format that the endpoint does not have.

Places have an oracle of their own, which shares no code with the program:
\`npm run test:exhaustive weather/places/placed-shapes\` feeds 10,000 polygons across the antimeridian and around
the poles as alerts and asks for points and boxes. On 2026-11-26: 1,200 answers with 25,239 alerts on each
database, 0 differences.

This page is made by the test. If it differs, the test writes the new one to \`.tap/weather-corpus/README.md\`.
`;
