import type { PostgresConfig } from '../../src/core/config/weather/databases.ts';

/** A server whose URL is in `WEATHER_URL`. */
export const primary: PostgresConfig = {
  name: 'primary',
  driver: 'postgres',
  schema: 'weather',
  urlEnv: 'WEATHER_URL',
  poolSize: 4,
  statementTimeoutMs: 5000,
  lockTimeoutMs: 1000,
  connectTimeoutMs: 5000,
};
