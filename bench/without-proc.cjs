/**
 * Preloaded by `npm run bench -- handles`: hides `/proc/self`, so that local storage uses paths, as it does
 * where `/proc` is missing.
 */
const fs = require('node:fs');
const { syncBuiltinESMExports } = require('node:module');
const { readlinkSync } = fs;

fs.readlinkSync = (file, ...more) => {
  if (file === '/proc/self') throw Object.assign(new Error('hidden'), { code: 'ENOENT' });
  return readlinkSync(file, ...more);
};
syncBuiltinESMExports();
