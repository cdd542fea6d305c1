import process from 'node:process';

// `npm publish` in a clone skips the checks of a release, and the package would name no repository.
console.error('publish the tarball of a release instead: npm run package -- --release, npm publish FILE.tgz');
process.exitCode = 1;
