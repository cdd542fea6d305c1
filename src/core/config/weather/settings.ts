import { duration, map, path } from '../../lib/settings/kinds.ts';
import type { ResolvedBy } from '../../lib/settings/setting.ts';
import { feed } from './feed.ts';

export const templates = map({
  base_dir: path().description(
    'Directory of the text templates, relative to the working directory. Default: the package has them.',
  ),
}).description('Templates of the weather reader.');

/**
 * Declares how old a kind of data has to be to count as stale. The defaults allow for a few missed polls, or
 * one missed update.
 */
function staleAfter(age: string) {
  return duration({ atLeast: '1s', atMost: '3650d' })
    .default(age)
    .description('Age at which data is marked stale.');
}

export const weather = map({
  cache: duration({ atLeast: '0s', atMost: '60s' })
    .default('1s')
    .description('How long a response is cached for identical reads.'),
  deadline: duration({ atLeast: '100ms', atMost: '5m' })
    .default('5s')
    .description('Time limit for a read, including waiting.'),
  stale_after: map({
    observations: staleAfter('2h'),
    current_conditions: staleAfter('2h'),
    alerts: staleAfter('10m'),
    hourly_forecasts: staleAfter('6h'),
    narrative_forecasts: staleAfter('12h'),
    forecast_discussions: staleAfter('12h'),
    weather_stories: staleAfter('24h'),
    // The outlook for day 1 comes out five times a day, and the one for days 4 to 8 only once.
    convective_outlooks: staleAfter('26h'),
    outlook_discussions: staleAfter('26h'),
  })
    .default()
    .description('Maximum age of fresh data.'),
  feed: feed.default(),
}).description('The weather reader. waybill weather runs it alone, on server.http.listen.');

/** The settings of the weather reader, without its databases. */
export type WeatherConfig = ResolvedBy<typeof weather>;
