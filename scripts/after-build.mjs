// Completes a build: makes the programs executable, copies files that they read, and deletes old output.
import { chmodSync, copyFileSync, cpSync, existsSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';

for (const program of ['dist/cli/main.js', 'dist/cli/weather.js'])
  if (existsSync(program)) chmodSync(program, 0o755);

for (const file of ['scene-map.schema.json', 'generated/quick-validator.js', 'generated/full-validator.js']) {
  copyFileSync(`src/core/scene-map/${file}`, `dist/core/scene-map/${file}`);
}

cpSync('src/workers/bullmq/scripts', 'dist/workers/bullmq/scripts', { recursive: true });
copyFileSync('src/weather/feed/tables/weather-contract.sql', 'dist/weather/feed/tables/weather-contract.sql');

// Delete output whose source has been moved or deleted since an earlier build. Otherwise, it would be
// published.
for (const entry of readdirSync('dist', { recursive: true, withFileTypes: true })) {
  const built = path.join(entry.parentPath, entry.name);
  const source = path.join('src', path.relative('dist', built));
  if (built.startsWith(path.join('dist', 'bundle'))) continue;
  const isStale = entry.isDirectory()
    ? !existsSync(source)
    : built.endsWith('.d.ts') && !existsSync(typed(source));
  if (isStale) rmSync(built, { recursive: true, force: true });
}

function typed(source) {
  return source.replace(/\.d\.ts$/, '.ts');
}
