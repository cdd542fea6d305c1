/** Hazards of convective outlooks, as the feeder stores them and the reader expects them. */
export const hazards = ['categorical', 'tornado', 'wind', 'hail', 'any_severe'] as const;
export type Hazard = (typeof hazards)[number];

/** The hazards that the Storm Prediction Center outlines for a day, each in a file of its own. */
export function hazardsOf(day: number): readonly Hazard[] {
  if (day >= 4) return ['any_severe'];
  return day === 3 ? ['categorical', 'any_severe'] : ['categorical', 'tornado', 'wind', 'hail'];
}

/**
 * Labels of rows that stand for a whole hazard, with rank 0 and an empty geometry: `NONE`, no area is
 * outlined; `UNKNOWN`, the provider cannot say; `UNREADABLE`, a part of the file cannot be read.
 */
export const markers = ['NONE', 'UNKNOWN', 'UNREADABLE'] as const;
export type Marker = (typeof markers)[number];
