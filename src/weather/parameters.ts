import { choice, identifier, type Rule } from '../core/lib/parameters.ts';
import { instant } from './instant.ts';

/** The parameters that several families take. */

export const stationPattern = /^[A-Z0-9]{3,8}$/;

export const unitsParameter = choice(['si', 'us'], 'si', {
  description: '`si`: degC, km/h, Pa, m, mm. `us`: degF, mph, inHg, mi, ft, in.',
});

/** Null: of any office. */
export const officeParameter = identifier(
  /^[A-Z]{3}$/,
  'the three letters of a forecast office, such as OKX',
  { description: 'A forecast office. Without it: the newest of any.', example: 'OKX' },
);

/** `start` comes before `end`, by `mostMs` milliseconds at most. */
export function rangeRule(mostMs: number): Rule {
  const hours = mostMs / (60 * 60_000);
  const most = hours > 500 ? `${hours / 24} days` : `${hours} hours`;
  return (_given, { start, end }) => {
    if (!(start instanceof Date) || !(end instanceof Date)) return null;
    const latest = instant(new Date(start.getTime() + mostMs));
    if (end <= start)
      return { name: 'end', message: `must come after "start" (${instant(start)}), such as ${latest}` };
    return end.getTime() - start.getTime() <= mostMs
      ? null
      : {
          name: 'end',
          message: `may be up to ${most} after "start": ask for less at once, such as ${latest}`,
        };
  };
}
