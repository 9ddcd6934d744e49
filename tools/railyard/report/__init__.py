"""What is made from results and tables: parsed outputs, rebuilt reports, generated documents."""
