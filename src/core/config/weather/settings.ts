import { duration, map, path } from '../../lib/settings/kinds.ts';
import type { AcceptedBy } from '../../lib/settings/setting.ts';
import { type PathBase, resolveDuration } from '../../lib/settings/values.ts';
import { feed, type FeedConfig, resolveFeed } from './feed.ts';

/**
 * The default age at which the data of a family is stale: a few missed polls for alerts, a missed issue for
 * the others. Day 1 of the outlooks is issued five times a day, days 4 to 8 once.
 */
const staleAfter = {
  observations: '2h',
  currentConditions: '2h',
  alerts: '10m',
  hourlyForecasts: '6h',
  narrativeForecasts: '12h',
  forecastDiscussions: '12h',
  weatherStories: '24h',
  convectiveOutlooks: '26h',
  outlookDiscussions: '26h',
};
type DatedFamily = keyof typeof staleAfter;

/** The settings of the weather reader, without its databases. */
export interface WeatherConfig {
  /** How long rendered answers are cached; 0 disables the cache. */
  cacheMs: number;
  /** Longest time that one read of the database may take. */
  deadlineMs: number;
  /** The age at which data is called stale. */
  staleAfterMs: Readonly<Record<DatedFamily, number>>;
  /** The settings of the feeder; unused by the reader. */
  feed: FeedConfig;
}

const families = Object.entries(staleAfter) as [DatedFamily, string][];

export const templates = map({
  base_dir: path().description(
    'Directory of the text templates of the weather reader. A relative path starts at the working directory of the process, not at this file. Default: the templates of the package.',
  ),
}).description('Templates of text output.');

export const weather = map({
  cache: duration({ atLeast: '0s', atMost: '60s' })
    .default('1s')
    .description('How long a rendered response is cached for identical reads. 0s disables the cache.'),
  deadline: duration({ atLeast: '100ms', atMost: '5m' })
    .default('5s')
    .description('Time limit for one read, including waiting. A read that takes longer gets 503.'),
  stale_after: map(
    Object.fromEntries(
      families.map(([name, age]) => [
        settingName(name),
        duration({ atLeast: '1s', atMost: '3650d' })
          .default(age)
          .description('Age at which this data is marked stale.'),
      ]),
    ),
  )
    .default()
    .description('Maximum age of fresh data, for each family of records.'),
  feed: feed.default(),
}).description('The weather reader. waybill weather runs it alone, on server.http.listen.');

export function resolveWeather(
  { cache, deadline, stale_after: staleAfter, feed: fed }: AcceptedBy<typeof weather>,
  base: PathBase,
): WeatherConfig {
  return {
    cacheMs: resolveDuration(cache),
    deadlineMs: resolveDuration(deadline),
    staleAfterMs: Object.fromEntries(
      families.map(([name]) => [name, resolveDuration(staleAfter[settingName(name)] ?? '')]),
    ) as Record<DatedFamily, number>,
    feed: resolveFeed(fed, base),
  };
}

/** `currentConditions` → `current_conditions`. */
function settingName(name: DatedFamily): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
