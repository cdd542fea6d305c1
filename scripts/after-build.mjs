// What tsc does not do: the executable bit, and the files beside the code that the built program reads.
import { chmodSync, existsSync } from 'node:fs';

if (existsSync('dist/cli/main.js')) chmodSync('dist/cli/main.js', 0o755);
