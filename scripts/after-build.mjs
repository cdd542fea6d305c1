// Sets the executable bit, copies files that the built program reads, and removes types without a source.
import { chmodSync, copyFileSync, cpSync, existsSync, readdirSync, rmSync } from 'node:fs';

for (const program of ['dist/cli/main.js', 'dist/cli/weather.js'])
  if (existsSync(program)) chmodSync(program, 0o755);

for (const file of ['scene-map.schema.json', 'generated/quick-validator.js', 'generated/full-validator.js']) {
  copyFileSync(`src/core/scene-map/${file}`, `dist/core/scene-map/${file}`);
}

cpSync('src/workers/bullmq/scripts', 'dist/workers/bullmq/scripts', { recursive: true });
copyFileSync('src/weather/feed/tables/weather-contract.sql', 'dist/weather/feed/tables/weather-contract.sql');

// An earlier build may have left types of files that have moved since. They would be packed.
for (const file of readdirSync('dist', { recursive: true, encoding: 'utf8' }))
  if (file.endsWith('.d.ts') && !existsSync(`src/${file.replace(/\.d\.ts$/, '.ts')}`)) rmSync(`dist/${file}`);
