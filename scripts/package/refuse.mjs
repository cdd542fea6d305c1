import process from 'node:process';

// What lies in a clone is not the package: it lacks exact versions, and has maps, tests and tools.
console.error('this publishes the clone; publish the package instead: npm run package, npm publish FILE.tgz');
process.exitCode = 1;
