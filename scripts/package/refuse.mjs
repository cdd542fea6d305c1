import process from 'node:process';

// Publishing from a clone would skip the checks for a release, and the package would have no repository.
console.error('publish the tarball of a release instead: npm run package -- --release, npm publish FILE.tgz');
process.exitCode = 1;
