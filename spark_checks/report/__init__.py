"""What an audit leaves behind: report.html, verdicts.json, junit.xml, recommendations.yml."""
