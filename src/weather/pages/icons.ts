/** The icon of a sky, by its words. `templates/weather-pages/icons.ejs` draws them. */
export const icons = [
  'thunder',
  'sleet',
  'snow',
  'rain',
  'fog',
  'wind',
  'partly',
  'cloudy',
  'clear',
  'night',
  'partly-night',
] as const;
export type Icon = (typeof icons)[number];

const words: readonly [RegExp, Icon][] = [
  [/thunder|t-?storm|tornado|funnel|squall/i, 'thunder'],
  [/sleet|freezing (?:rain|drizzle|spray)|ice|hail|wintry/i, 'sleet'],
  [/snow|blizzard|flurr/i, 'snow'],
  [/rain|drizzle|shower|precipitation/i, 'rain'],
  [/fog|mist|haze|smoke|dust|ash|sand/i, 'fog'],
  [/partly|mostly (?:sunny|clear)|few|scattered/i, 'partly'],
  [/cloud|overcast|broken|obscured/i, 'cloudy'],
  [/clear|sunny|fair|skc/i, 'clear'],
  [/wind|breez|blust/i, 'wind'],
];

/** Null if no word is known: an icon never says more than its text. Pure. */
export function iconOf(sky: string | null, isDaytime: boolean): Icon | null {
  const icon = sky === null ? undefined : words.find(([pattern]) => pattern.test(sky))?.[1];
  if (icon === undefined) return null;
  if (isDaytime || (icon !== 'clear' && icon !== 'partly')) return icon;
  return icon === 'clear' ? 'night' : 'partly-night';
}
