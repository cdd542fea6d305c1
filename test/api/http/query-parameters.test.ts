import t from 'tap';
import { queryParameters } from '../../../src/api/http/query-parameters.ts';
import { daemonRoutes as routes } from '../../../src/cli/daemon/daemon-app.ts';
import { startApi, tokens } from '../harness.ts';

/** Values that other parsers accept as numbers, or that people and programs send by mistake. */
const noDigits = [
  '',
  ' 7',
  '7 ',
  '+7',
  '-7',
  '7.0',
  '7e0',
  '0x7',
  '0b1',
  '7n',
  '1_0',
  '٧',
  '７',
  'NaN',
  'all',
];

/** Every numeric query parameter of every route, taken from the routes themselves. */
const numbers = routes.flatMap(({ method, path, parameters = [] }) =>
  parameters
    .filter(({ in: where, schema }) => where === 'query' && isNumber(schema))
    .map(({ name, schema }) => ({ method, path: path.replace(/\{\w+\}/g, 'maps'), name, schema })),
);

function isNumber({ type }: Readonly<Record<string, unknown>>): boolean {
  return [type].flat().some((one) => one === 'integer' || one === 'number');
}

t.test('queries have numbers, and each is an integer with bounds', async (t) => {
  t.ok(numbers.length >= 8, `${numbers.length} of them`);
  for (const { path, name, schema } of numbers)
    t.match(schema, { type: 'integer', minimum: Number, maximum: Number }, `${path} ${name}`);
});

t.test(
  'a number in a query has only digits and is within its bounds, on every route that has one',
  async (t) => {
    const { origin } = await startApi(t);
    const headers = { authorization: `Bearer ${tokens.maps}`, accept: 'application/json' };
    /** The status of a response that rejects the value, or null if it is accepted. */
    const wrong = async ({ method, path, name }: (typeof numbers)[number], text: string) => {
      const url = `${origin}${path}?${name}=${encodeURIComponent(text)}`;
      const response = await fetch(url, { method: method.toUpperCase(), headers });
      // A valid value starts a stream on some routes.
      const isProblem = response.headers.get('content-type')?.startsWith('application/problem+json');
      if (isProblem !== true) await response.body?.cancel();
      const { findings = [] }: Refusal = isProblem === true ? ((await response.json()) as Refusal) : {};
      // Other required parameters may be missing.
      const isWrong = findings.some(({ pointer, code }) => pointer === name && code === 'invalid_value');
      return isWrong ? response.status : null;
    };
    await Promise.all(
      numbers.map(async (number) => {
        const { minimum, maximum } = number.schema as { minimum: number; maximum: number };
        const name = `${number.path} ${number.name}`;
        for (const text of [...noDigits, String(minimum - 1), String(maximum + 1)])
          t.equal(await wrong(number, text), 400, `${name} "${text}"`);
        for (const text of [String(minimum), String(maximum)])
          t.equal(await wrong(number, text), null, `${name} "${text}"`);
      }),
    );
  },
);

interface Refusal {
  findings?: { pointer: string; code: string }[];
}

t.test('a parameter that is repeated thousands of times takes about as long as other ones', (t) => {
  const { read } = queryParameters({});
  const msOf = (names: readonly string[]): number => {
    const begun = performance.now();
    t.throws(() => read(`/?${names.join('&')}`), { code: 'invalid_request' });
    return performance.now() - begun;
  };
  const count = 16_000;
  const others = msOf(Array.from({ length: count }, (_, index) => `a${index}`));
  const a = Array.from({ length: count }, () => 'a');
  const repeated = Math.min(msOf(a), msOf(a));
  t.ok(repeated < 30 * others, `${repeated} ms, and others ${others} ms`);
  t.end();
});
