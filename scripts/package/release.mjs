/*
 * What has to hold before a version is published, beside that its tests pass: `npm run package -- --release`
 * asks, and makes nothing where something is amiss.
 */

/**
 * What is amiss, each in a sentence; none if the version may be published. `tags` are those of the commit
 * that is packed, `changes` the files that git has not got as they are, `repository` what
 * `chosenRepository` says. Pure.
 */
export function releaseProblems({ manifest, repository, changelog, tags, changes }) {
  const { version, publishConfig } = manifest;
  const [, heading = ''] = /^## (.*)$/m.exec(changelog) ?? [];
  const isDated = new RegExp(String.raw`^\[${version.replaceAll('.', String.raw`\.`)}\] - \d{4}-\d\d-\d\d$`);
  return [
    ...(isDated.test(heading)
      ? []
      : [`CHANGELOG.md begins with "## ${heading}", and not with "## [${version}] - YYYY-MM-DD"`]),
    ...(publishConfig?.provenance === true && repository.problem !== undefined
      ? [`npm takes no provenance without a repository: ${repository.problem}`]
      : []),
    ...(tags.includes(`v${version}`) ? [] : [`the commit has no tag v${version}`]),
    ...(changes.length === 0 ? [] : [`git has not got as they are: ${changes.join(', ')}`]),
  ];
}
