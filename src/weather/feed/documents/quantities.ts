import { isRecord } from '../../../core/lib/json-document.ts';
import { numberCheck } from '../../database/cleaner.ts';
import { type Json, type Note } from './rows.ts';

/**
 * Converts quantities from api.weather.gov to the unit of the column. For example: `{"unitCode":
 * "wmoUnit:degC", "value": 3.9}`.
 */

type Conversion = (value: number) => number;
const times =
  (factor: number): Conversion =>
  (value) =>
    value * factor;
const same = times(1);

const metres: Readonly<Record<string, Conversion>> = {
  m: same,
  km: times(1000),
  cm: times(0.01),
  mm: times(0.001),
  ft: times(0.3048),
  '[ft_i]': times(0.3048),
  in: times(0.0254),
  '[in_i]': times(0.0254),
  mi: times(1609.344),
  '[mi_i]': times(1609.344),
  '[nmi_i]': times(1852),
};
const ratios: Readonly<Record<string, Conversion>> = { percent: same, '%': same, '1': times(100) };
const degrees: Readonly<Record<string, Conversion>> = {
  'degree_(angle)': same,
  deg: same,
  degree: same,
  rad: times(180 / Math.PI),
};

/**
 * The units that can be converted. The key is the suffix of the column, which is also the unit to convert to.
 */
const units: readonly [suffix: string, Readonly<Record<string, Conversion>>][] = [
  [
    '_c',
    {
      degC: same,
      Cel: same,
      degF: (value) => ((value - 32) * 5) / 9,
      '[degF]': (value) => ((value - 32) * 5) / 9,
      K: (value) => value - 273.15,
    },
  ],
  [
    '_kmh',
    {
      'km_h-1': same,
      'km/h': same,
      'm_s-1': times(3.6),
      'm/s': times(3.6),
      kt: times(1.852),
      '[kn_i]': times(1.852),
      'mi_h-1': times(1.609344),
      mph: times(1.609344),
      '[mi_i]/h': times(1.609344),
    },
  ],
  [
    '_pa',
    {
      Pa: same,
      hPa: times(100),
      kPa: times(1000),
      mbar: times(100),
      mb: times(100),
      inHg: times(3386.389),
      '[in_i_Hg]': times(3386.389),
    },
  ],
  ['_pct', ratios],
  ['_deg', degrees],
  [
    '_mm',
    {
      ...Object.fromEntries(
        Object.entries(metres).map(([unit, convert]) => [unit, (value: number) => convert(value) * 1000]),
      ),
      mm: same,
      'kg_m-2': same,
    },
  ],
  ['_m', metres],
];

/**
 * Returns a quantity in the unit of `column`, or null if it has no value. Also returns null if the value is
 * impossible or the unit unknown, which is reported through `note`. A number without a unit is already in the
 * unit of the column.
 */
export function quantity(value: unknown, column: string, what: string, note: Note): number | null {
  const given = isRecord(value) ? valueOf(value) : value;
  const figure = typeof given === 'string' && /^[-+]?\d+(\.\d+)?$/.test(given) ? Number(given) : given;
  if (figure === null || figure === undefined) return null;
  if (typeof figure !== 'number') {
    note(`${what} is not a number; read as unknown`);
    return null;
  }
  const unitCode = isRecord(value) ? value['unitCode'] : undefined;
  const converted = convert(figure, unitCode, column);
  if (converted === null) {
    note(`${what} has the unit ${JSON.stringify(unitCode)}, which is not known for it; read as unknown`);
    return null;
  }
  if (numberCheck(column)(converted) === null) return converted;
  note(`${what} is ${figure}, which is impossible; read as unknown`);
  return null;
}

/** Some wind forecasts are a range. Returns the middle of it. */
function valueOf({ value, minValue, maxValue }: Json): unknown {
  if (value !== undefined && value !== null) return value;
  if (typeof minValue === 'number' && typeof maxValue === 'number') return (minValue + maxValue) / 2;
  return minValue ?? maxValue ?? null;
}

/** Returns null if the unit does not fit the column. */
function convert(value: number, unitCode: unknown, column: string): number | null {
  if (unitCode === undefined || unitCode === null || unitCode === '') return value;
  if (typeof unitCode !== 'string') return null;
  const known = units.find(([suffix]) => column.endsWith(suffix))?.[1] ?? {};
  // The unit can be written as `wmoUnit:degC`, `unit:degC`, or a URL.
  const unit = unitCode.replace(/^\w+:(?!\/)|^https?:.*\//, '');
  return Object.hasOwn(known, unit) ? (known[unit]?.(value) ?? null) : null;
}
