/** The official colors of the National Weather Service and the Storm Prediction Center. */

/**
 * The colors of alerts, see weather.gov/help-map. The most important ones come first, and are drawn on top of
 * the others.
 */
const alertColours: Readonly<Record<string, string>> = {
  'Tsunami Warning': '#fd6347',
  'Tornado Warning': '#ff0000',
  'Extreme Wind Warning': '#ff8c00',
  'Severe Thunderstorm Warning': '#ffa500',
  'Flash Flood Warning': '#8b0000',
  'Flash Flood Statement': '#8b0000',
  'Severe Weather Statement': '#00ffff',
  'Shelter In Place Warning': '#fa8072',
  'Evacuation Immediate': '#7fff00',
  'Civil Danger Warning': '#ffb6c1',
  'Nuclear Power Plant Warning': '#4b0082',
  'Radiological Hazard Warning': '#4b0082',
  'Hazardous Materials Warning': '#4b0082',
  'Fire Warning': '#a0522d',
  'Civil Emergency Message': '#ffb6c1',
  'Law Enforcement Warning': '#c0c0c0',
  'Storm Surge Warning': '#b524f7',
  'Hurricane Force Wind Warning': '#cd5c5c',
  'Hurricane Warning': '#dc143c',
  'Typhoon Warning': '#dc143c',
  'Special Marine Warning': '#ffa500',
  'Blizzard Warning': '#ff4500',
  'Snow Squall Warning': '#c71585',
  'Ice Storm Warning': '#8b008b',
  'Winter Storm Warning': '#ff69b4',
  'High Wind Warning': '#daa520',
  'Tropical Storm Warning': '#b22222',
  'Storm Warning': '#9400d3',
  'Tsunami Advisory': '#d2691e',
  'Tsunami Watch': '#ff00ff',
  'Avalanche Warning': '#1e90ff',
  'Earthquake Warning': '#8b4513',
  'Volcano Warning': '#2f4f4f',
  'Ashfall Warning': '#a9a9a9',
  'Coastal Flood Warning': '#228b22',
  'Lakeshore Flood Warning': '#228b22',
  'Flood Warning': '#00ff00',
  'High Surf Warning': '#228b22',
  'Dust Storm Warning': '#ffe4c4',
  'Blowing Dust Warning': '#ffe4c4',
  'Lake Effect Snow Warning': '#008b8b',
  'Extreme Heat Warning': '#c71585',
  'Excessive Heat Warning': '#c71585',
  'Tornado Watch': '#ffff00',
  'Severe Thunderstorm Watch': '#db7093',
  'Flash Flood Watch': '#2e8b57',
  'Gale Warning': '#dda0dd',
  'Flood Statement': '#00ff00',
  'Extreme Cold Warning': '#0000ff',
  'Wind Chill Warning': '#b0c4de',
  'Hard Freeze Warning': '#9400d3',
  'Freeze Warning': '#483d8b',
  'Red Flag Warning': '#ff1493',
  'Storm Surge Watch': '#db7ff7',
  'Hurricane Watch': '#ff00ff',
  'Hurricane Force Wind Watch': '#9932cc',
  'Typhoon Watch': '#ff00ff',
  'Tropical Storm Watch': '#f08080',
  'Storm Watch': '#ffe4b5',
  'Hurricane Local Statement': '#ffe4b5',
  'Winter Weather Advisory': '#7b68ee',
  'Avalanche Advisory': '#cd853f',
  'Cold Weather Advisory': '#afeeee',
  'Wind Chill Advisory': '#afeeee',
  'Heat Advisory': '#ff7f50',
  'Flood Advisory': '#00ff7f',
  'Coastal Flood Advisory': '#7cfc00',
  'Lakeshore Flood Advisory': '#7cfc00',
  'High Surf Advisory': '#ba55d3',
  'Dense Fog Advisory': '#708090',
  'Dense Smoke Advisory': '#f0e68c',
  'Small Craft Advisory': '#d8bfd8',
  'Brisk Wind Advisory': '#d8bfd8',
  'Hazardous Seas Warning': '#d8bfd8',
  'Dust Advisory': '#bdb76b',
  'Lake Wind Advisory': '#d2b48c',
  'Wind Advisory': '#d2b48c',
  'Frost Advisory': '#6495ed',
  'Ashfall Advisory': '#696969',
  'Freezing Fog Advisory': '#008080',
  'Freezing Spray Advisory': '#00bfff',
  'Heavy Freezing Spray Warning': '#00bfff',
  'Low Water Advisory': '#a52a2a',
  'Winter Storm Watch': '#4682b4',
  'Rip Current Statement': '#40e0d0',
  'Beach Hazards Statement': '#40e0d0',
  'Gale Watch': '#ffc0cb',
  'Avalanche Watch': '#f4a460',
  'Hazardous Seas Watch': '#483d8b',
  'Heavy Freezing Spray Watch': '#bc8f8f',
  'Flood Watch': '#2e8b57',
  'Coastal Flood Watch': '#66cdaa',
  'Lakeshore Flood Watch': '#66cdaa',
  'High Wind Watch': '#b8860b',
  'Extreme Heat Watch': '#800000',
  'Excessive Heat Watch': '#800000',
  'Extreme Cold Watch': '#5f9ea0',
  'Freeze Watch': '#00ffff',
  'Fire Weather Watch': '#ffdead',
  'Extreme Fire Danger': '#e9967a',
  'Coastal Flood Statement': '#6b8e23',
  'Lakeshore Flood Statement': '#6b8e23',
  'Special Weather Statement': '#ffe4b5',
  'Marine Weather Statement': '#ffdab9',
  'Air Quality Alert': '#808080',
  'Air Stagnation Advisory': '#808080',
  'Hazardous Weather Outlook': '#eee8aa',
  'Hydrologic Outlook': '#90ee90',
};

const ranks = new Map(Object.keys(alertColours).map((event, rank) => [event, rank]));
const otherAlert = '#c0c0c0';

export function alertColour(event: string): string {
  return Object.hasOwn(alertColours, event) ? (alertColours[event] ?? otherAlert) : otherAlert;
}

/** Returns how important an alert is. A lower rank is more important. */
export function alertRank(event: string): number {
  return ranks.get(event) ?? ranks.size;
}

const categories: Readonly<Record<string, string>> = {
  TSTM: '#c1e9c1',
  MRGL: '#66a366',
  SLGT: '#ffe066',
  ENH: '#ffa366',
  MDT: '#e06666',
  HIGH: '#ee99ee',
};
const levels = ['MRGL', 'SLGT', 'ENH', 'MDT', 'HIGH'];

/** Returns the level of a category of severe storms, from 1 to 5; null for any other area. */
export function riskLevel(label: string): number | null {
  const index = levels.indexOf(label);
  return index === -1 ? null : index + 1;
}

/** Returns the name of a category. `words` is the provider's text, such as `Slight Risk`. */
export function riskName(label: string, words: string | null): string {
  // The provider calls it `General Thunderstorms Risk`, but it is the absence of a risk of severe ones.
  return label === 'TSTM' ? 'Thunderstorms, not severe' : (words ?? label);
}

const colour = /^#[0-9a-f]{6}$/i;

/** Returns the area's own color if it is valid, or else the default color of its category. */
export function outlookColour({ label, fill }: { label: string; fill: string | null }): string {
  if (fill !== null && colour.test(fill)) return fill;
  return Object.hasOwn(categories, label) ? (categories[label] ?? otherAlert) : '#b0b7c0';
}

/**
 * A color is used for temperatures below this, in degrees Celsius. All of them are light enough for dark
 * text.
 */
export const temperatureSteps: readonly [below: number, colour: string][] = [
  [-25, '#d9c2f0'],
  [-15, '#c3b8f2'],
  [-8, '#aebff5'],
  [0, '#a3d0f7'],
  [5, '#a2e0ee'],
  [10, '#a8e6cf'],
  [15, '#bfe8a8'],
  [20, '#dcec97'],
  [25, '#f7e585'],
  [30, '#fccf7c'],
  [35, '#fbb27e'],
  [Infinity, '#f79a91'],
];

export function temperatureColour(celsius: number): string {
  return temperatureSteps.find(([below]) => celsius < below)?.[1] ?? '#f79a91';
}
