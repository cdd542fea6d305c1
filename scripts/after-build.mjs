// What tsc does not do: the executable bit, and the files beside the code that the built program reads.
import { chmodSync, copyFileSync, cpSync, existsSync } from 'node:fs';

for (const program of ['dist/cli/main.js', 'dist/cli/weather.js'])
  if (existsSync(program)) chmodSync(program, 0o755);

for (const file of ['scene-map.schema.json', 'generated/quick-validator.js', 'generated/full-validator.js']) {
  copyFileSync(`src/core/scene-map/${file}`, `dist/core/scene-map/${file}`);
}

cpSync('src/workers/bullmq/scripts', 'dist/workers/bullmq/scripts', { recursive: true });
copyFileSync('src/weather/feed/tables/weather-contract.sql', 'dist/weather/feed/tables/weather-contract.sql');
