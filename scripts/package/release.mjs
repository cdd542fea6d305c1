/* Release checks: `npm run package -- --release` runs them and packs nothing if one fails. */

/**
 * Returns the problems, one sentence each. Empty if the version can be published. `tags` are the tags of the
 * packed commit, `changes` the uncommitted files, `repository` the result of `chosenRepository`.
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
