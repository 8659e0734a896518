def show_map(rows, picture):
    pass
