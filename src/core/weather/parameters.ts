import { choice, identifier } from '../parameters.ts';

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
